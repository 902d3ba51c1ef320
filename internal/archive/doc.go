// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes and reads the tarball of a backup, in Velero's format
// 1.1.0, so that either system can restore what the other one stored.
//
// An archive is one gzip stream of one tar stream:
//
//	metadata/version                                                   "1.1.0\n", first
//	resources/<resource.group>/cluster/<name>.json
//	resources/<resource.group>/namespaces/<namespace>/<name>.json
//	resources/<resource.group>/<version>-preferredversion/…            the same again
//	resources/<resource.group>/<version>/…                             other versions
//
// An object in the version the API server prefers is stored twice, without and
// with its version in the path; an object in another version is stored once.
//
// Writer turns objects, given as the JSON the API server sent, into such a
// stream. Walk goes through one and treats it as hostile: everything is
// limited, only regular files with a path of the grammar above are handed out,
// and nothing is ever extracted into a directory.
//
// A restore needs the objects in another order than the archive has them, and
// more than once. NewSpool reads an archive a single time, to its end, verifies
// all of it, and keeps the content in one scratch file without a name and an
// index of it in memory. Before that nothing of the archive can be used, and
// what is used after it are those same bytes.
//
// Merge writes an archive anew with objects of a second one, a Spool, in it: what was
// archived again after the operations of a backup had ended. The first one streams
// through.
//
// The package knows nothing about clusters, selection or stores; those belong
// to internal/backup and internal/backupstore.
package archive
