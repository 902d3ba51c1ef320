// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides what a Backup contains, and what of it a Restore
// restores.
//
// It answers, for a cluster or a backup described to it, the questions that the
// engines ask while they collect items: is this namespace in, is this resource type
// in, does this item's label set match, in which order do named items come.
// It holds the rules and nothing else: it has no client, starts no goroutine
// and reads no clock, so that every rule is a table in a test.
//
// The pieces, in the order a Backup meets them:
//
//   - [Spec] is the part of a Backup's or Restore's spec that selects. [Validate] reports
//     everything that is wrong with it, without looking at a cluster.
//   - [Compile] combines a Spec with what the cluster serves ([Resolver]) and
//     the namespaces that exist into a [Selection].
//   - [Selection] gives the answers: [Selection.IncludesNamespace],
//     [Selection.Resource], [Selection.MatchesLabels],
//     [Selection.ShouldArchiveNamespace], [Selection.Ordered].
//     [Selection.Unmatched] says what was asked for and does not exist.
//   - [IsExcludedByLabel] and [IsNeverArchived] are the two rules no Spec can
//     override.
//
// # Rules
//
// The rules are those of Velero v1.18 (pkg/util/collections,
// pkg/util/wildcard, pkg/backup and the backup controller of
// github.com/vmware-tanzu/velero), so that a Velero user gets the backup they
// expect; the module test/interop compares the two on generated inputs.
// Exclusion always wins over inclusion. An empty include list means
// everything, with one exception: cluster-scoped resources are included of
// themselves only if the whole cluster is, see [Selection.Resource].
//
// In four corners, where Velero would archive what nobody asked for or ignore
// what somebody did ask for, the package deliberately differs:
//
//   - A namespace pattern that matches nothing selects nothing. Velero then
//     regards the backup as one of the whole cluster and adds every
//     cluster-scoped resource to it.
//   - A scoped include list of which no entry has the right scope (for
//     example includedNamespaceScopedResources: [nodes]) selects nothing.
//     Velero drops the entries, finds the list empty and selects everything.
//     The same goes for a list that names only volume snapshots, which are
//     left out of every backup unless a plugin asks for them.
//   - The default exclusion of volume snapshot contents does not turn a
//     backup of the whole cluster into one without cluster-scoped resources.
//   - A pattern in excludedNamespaces also excludes namespaces that appear
//     after the backup started.
//
// # Restores
//
// A Restore selects among the objects of a backup by the same rules: the
// namespaces that exist are then those of the backup, by their original names,
// and resources are known if the backup or the cluster has them. [Spec].FromBackup
// says so. It changes what warnings speak of, restores cluster-scoped resources of
// themselves only without a filter of namespaces (as Velero does, so that it does
// not matter what else was backed up), and leaves it to the restore to
// refuse, with a reason, what is never archived and is in the backup all the
// same.
//
// # Not for
//
// Volume policies, which select data rather than objects.
package selection
