// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides what a Backup contains, and which part of that a Restore
// restores.
//
// For the description of a cluster or backup, it answers the questions of the engines while
// they collect items: is this namespace included, is this resource type included, do the
// labels of this item match, in which order are named items archived. It contains only the
// rules: it has no client, starts no goroutine and reads no clock, so every rule is a table
// in a test.
//
// The parts, in the order in which a Backup uses them:
//
//   - [Spec] is the part of a Backup's or Restore's spec that selects. [Validate] reports
//     everything that is wrong with it, without a cluster.
//   - [Compile] combines a Spec with what the cluster serves ([Resolver]) and
//     the namespaces that exist into a [Selection].
//   - [Selection] gives the answers: [Selection.IncludesNamespace],
//     [Selection.ResourceInclusion], [Selection.MatchesLabels],
//     [Selection.ShouldArchiveNamespace], [Selection.OrderedItems].
//     [Selection.UnmatchedWarnings] lists entries that match nothing.
//   - [IsExcludedByLabel] and [IsNeverArchived] are the two rules that no Spec can
//     override.
//
// # Rules
//
// The rules are those of Velero v1.18 (pkg/util/collections, pkg/util/wildcard, pkg/backup
// and the backup controller of github.com/vmware-tanzu/velero), so that a Velero user gets
// the backup they expect. The module test/interop compares the two on generated inputs.
// Exclusion always takes precedence over inclusion. An empty include list means everything,
// with one exception: cluster-scoped resources are included by default only if the whole
// cluster is, see [Selection.ResourceInclusion].
//
// In four corner cases, in which Velero would archive what the user did not request or
// ignore what the user did request, the package deliberately differs:
//
//   - A namespace pattern that matches nothing selects nothing. Velero then
//     regards the backup as one of the whole cluster and adds every
//     cluster-scoped resource to it.
//   - A scoped include list in which no entry has the right scope (for
//     example includedNamespaceScopedResources: [nodes]) selects nothing.
//     Velero drops the entries, finds the list empty and selects everything.
//     The same applies to a list that names only volume snapshots, which are
//     left out of every backup unless a plugin asks for them.
//   - The default exclusion of volume snapshot contents does not turn a
//     backup of the whole cluster into one without cluster-scoped resources.
//   - A pattern in excludedNamespaces also excludes namespaces that appear
//     after the backup started.
//
// # Restores
//
// A Restore selects from the objects of a backup by the same rules: the existing namespaces
// are then those of the backup, by their original names, and resources are known if the
// backup or the cluster has them. [Spec].FromBackup enables this. It changes the wording of
// warnings. It restores cluster-scoped resources by default only without a filter of
// namespaces (as Velero does, so that the result does not depend on what else was backed
// up). It also lets the restore reject, with a reason, objects in the backup that are never
// archived.
//
// # Not for
//
// Volume policies, which select data rather than objects.
package selection
