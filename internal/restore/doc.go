// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore is the engine that turns an archive into objects of a
// cluster: choose, order, act, create or compare.
//
// Engine.Run does one restore. It learns what the cluster serves, selects from
// the archive (by the names the namespaces had) and chooses a version for each
// resource (plan.go). CustomResourceDefinitions come first, and are waited for
// (definitions.go); then the namespaces (namespaces.go); then the other kinds in
// waves (waves.go): those of high priority one after the other, all others
// together, those of low priority last. Within a wave, a bounded number of
// workers restores objects in parallel (item.go): an object is read, cleaned,
// shown to the restore actions, which may name others to be restored before it
// (related.go), and created with one request (create.go).
//
// What exists is compared and not created (existing.go): where many objects may
// exist, their kind is listed in pages, and what the list has is compared as it
// comes, for all kinds at once and before the waves. So a restore onto a cluster that has everything costs a LIST per kind,
// and one into new namespaces costs a POST per object and nothing else.
//
// What happens to an object that exists and differs is the caller's choice:
//
//	none      it stays, with a warning that names the fields
//	update    it is patched to what the archive has; its owners and finalizers stay
//	recreate  it is deleted, and created when it is gone; or updated where a quota lacks room for both
//
// Namespaces, CustomResourceDefinitions, PersistentVolumes and their claims are
// never deleted, because everything in them would go too, nor are Schedules and storage
// locations: recreate updates them. Nothing else is deleted before the API server has
// said that it would take what replaces it (replace.go). A ServiceAccount is merged, whatever the policy: every namespace has one
// before anything is restored. A released PersistentVolume with the data of a
// restored claim is reserved for it.
//
// Every object that a restore writes has the annotation grapnel.dev/restored
// with what was done, the UID of the restore and a MAC (stamp.go). A restore that was
// interrupted and starts again, or that did not get the answer to a request, finds its
// own objects by it and reports them as what they are, without touching them. An
// annotation without a valid MAC proves nothing.
//
// What fails for one object or kind is recorded in Result.Results, in the words
// of the API server, and never ends a run. Run returns an error only for what
// makes a restore impossible: the context ended, the request contradicts
// itself, the cluster cannot be discovered, or it stopped answering.
//
// A dry run reads the cluster and writes nothing. The restore actions of the engine
// are asked in it too.
//
// The actions of a request are those of plugins (outside.go): calls to them leave the
// program, take their time, and may do what cannot be taken back. So they say once,
// before anything is written, which objects concern them; they are called after the
// built-in actions, at most once for an object in a run, and only if the object is
// going to be written: one that this restore made before, or that exists and stays, is
// looked for first. They may make an object of another version or kind of it
// (convert.go), and let it wait until what it needs is ready (ready.go), without
// holding up others. Namespaces are not shown to them, and a dry run does not call
// them.
//
// The engine knows no custom resources of Grapnel, no stores and no hooks.
package restore
