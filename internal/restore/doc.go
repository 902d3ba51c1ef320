// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore is the engine that restores an archive to a cluster: choose, order, call
// actions, create or compare.
//
// Engine.RestoreObjects runs one restore. It discovers the cluster, selects from the
// archive (by the original names of the namespaces) and chooses a version for each resource
// (plan.go). It first restores CustomResourceDefinitions and waits for them
// (definitions.go), then the namespaces (namespaces.go), then the other kinds in waves
// (waves.go): those of high priority one after the other, all others together, those of low
// priority last. Within a wave, a bounded number of workers restores objects in parallel
// (item.go). A worker reads and cleans an object, calls the restore actions, which may name
// others to be restored before it (relateditems.go), and creates it with one request
// (creation.go).
//
// Existing objects are compared and not created (comparison.go). If many objects may exist,
// their kind is listed in pages, and listed objects are compared as they arrive, for all
// kinds at once and before the waves. So a restore to a cluster that has everything costs a
// LIST per kind, and one into new namespaces costs only a POST per object. With the
// policy update, unchanged objects also cost a PATCH of their labels.
//
// The policy for an object that exists and differs is:
//
//	none      it is not changed, with a warning that names the fields
//	update    it is patched to the archived state; its owners and finalizers stay
//	recreate  it is deleted, and then created; or updated if a quota does not allow both
//
// Namespaces, CustomResourceDefinitions, PersistentVolumes and their claims are never
// deleted, because everything in them would be deleted too. The same applies to Schedules
// and storage locations: recreate updates all of these. No other object is deleted before
// the API server has confirmed that it would accept the replacement (replacement.go). A
// ServiceAccount is always merged: every namespace has one before anything is restored. A
// released PersistentVolume with the data of a restored claim is reserved for the claim.
//
// Every object that a restore writes has the annotation grapnel.dev/restored with the
// outcome, the UID of the restore and a MAC (package stamp). A restore that was interrupted and
// starts again, or that did not get the reply to a request, recognizes its own objects by
// this annotation and reports their outcomes without changing them. An annotation without a
// valid MAC proves nothing.
//
// Failures of one object or kind are recorded in Result.Results, with the message of the
// API server, and never end a run. RestoreObjects returns an error only if a restore is
// impossible: the context ended, the request is inconsistent, the cluster cannot be
// discovered, or it stopped answering.
//
// A dry run reads the cluster and writes nothing. It calls the restore actions of the
// engine.
//
// The actions of a request are those of plugins (pluginactions.go): calls to them leave the
// program, take time, and may have effects that cannot be undone. So their selectors are
// requested once, before anything is written. The actions are called after the built-in
// ones, at most once for an object in a run, and only if the object will be written: the
// engine first checks whether this restore has already created it, or whether it exists and
// is not to be changed. They may convert an object to another version or kind
// (conversion.go), and let it wait until its related items are ready (readiness.go),
// without blocking others. They are not called for Namespaces, nor in a dry run.
//
// Modifiers of a request (modification.go), which are rules of a user, change objects after all
// actions, also in a dry run. What they return is checked like what a plugin returns, and is
// not restored if the built-in actions would have skipped it in the archive.
//
// The engine does not know Grapnel's custom resources, stores or hooks.
//
// # Runner
//
// A Runner connects the store and the engine: it runs one restore from the manifest of
// its backup to the files with the outcome of each object.
//
//	ReadManifest         read the manifest of the backup, if it exists
//	VerifyArchive        archive → verified scratch file, which Restore takes
//	Restore              the same if it was not done, → engine → log, results, resource list
//	Finalize             store the outcome of the operations that actions had started
//	StorePendingReport   store what Restore could not store
//	Abandon              end a failed or canceled run: store its log, the reason, and the
//	                     outcome of its objects if that was not stored before
//	UploadPostActionLog  store the log of the PostRestore actions
//	ReleaseArchive       remove the archive of VerifyArchive
//	RemoveLocalFiles     remove all local files after the run
//
// Restore also prepares the actions of plugins for one run, and passes the Restore to them
// as Velero would (actions.go).
//
// Every step may be retried: the engine finds what an interrupted run created, and what
// Finalize adds to the results replaces what it added before. Between Restore and Finalize
// may be hours and another operator, so only the store must be persistent: the results name
// their Restore, and a log without its beginning is joined to the one in the store.
//
// controllers/restore decides when a step runs.
//
// # Comparison
//
// [MergePatch] determines whether an object in a cluster equals the restored form of the
// archived one, and computes the patch that makes it equal. It has no side effects.
//
// The restored object lacks what its new cluster sets, so two objects are never equal field
// by field. Ignored are:
//
//   - status, and all metadata except labels and annotations: owners, finalizers and
//     managers of an object belong to the cluster, also when it is updated;
//   - labels and annotations that restores and controllers set themselves;
//   - a field that the cluster has and the restored object lacks, if the archived one had
//     it: an action removed it for the cluster to set (cluster IPs, node ports, selectors
//     of Jobs);
//   - a few fields that are set later (the volume of a claim, the claim of a volume, CA
//     bundles);
//   - null, empty lists and empty objects, which mean the same as no field.
//
// Any other field that only the cluster has is a difference: the restore removes it.
package restore
