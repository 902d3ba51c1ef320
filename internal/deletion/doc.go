// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletion does the part of a deletion that needs the storage location of the
// backup: it shows the archived objects to DeleteItemActions and removes the files.
//
//	Look         is there such a backup, and what do its manifests say
//	CallActions  archive → scratch file → every object to every action it concerns
//	RemoveFiles  the files of the backup, manifest first, and those of its Restores
//	Forget       the run is over: nothing is kept of it any more
//
// Nothing that belongs to an action stops a deletion. What fails is tried in three
// rounds, with pauses between them; in each round the objects come in the order of the
// archive. An action that does not answer is given up for the round, and one that has
// wasted an hour for good. What was not cleaned up at last is named in words for people
// (AppendLeftovers). An archive that is missing or damaged is no obstacle either: actions see
// what can be read, and what was behind it is mentioned.
//
// What does stop it, with an error and before anything is removed, is the end of the
// context, a store or a scratch folder that fails, and, of files, that nobody can say whose
// they are. All of it may be repeated at any time, after a crash too; an action is then
// shown the same objects again, which its contract allows. What CallActions returned has to
// be recorded before RemoveFiles: it can not be found out again.
//
// An action never sees an object of another backup: who has the name is looked at before.
// Archives are hostile all the same (package archive); an object that is not what its
// path says is not shown. A digest that differs means that the archive was replaced,
// unless it is damaged as well; nothing of one that was replaced is shown. That guards
// against mistakes, not against those who may write to the bucket, and to the manifests
// in it.
//
// It takes plain values and knows none of our kinds; when what is done is decided by
// controllers/deletionrun.
package deletion
