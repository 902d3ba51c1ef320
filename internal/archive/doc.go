// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes and reads the tarball of a backup in Velero's format 1.1.0, so
// that each system can restore the backups of the other.
//
// An archive is one gzip stream of one tar stream:
//
//	metadata/version                                                   "1.1.0\n", first
//	resources/<resource.group>/cluster/<name>.json
//	resources/<resource.group>/namespaces/<namespace>/<name>.json
//	resources/<resource.group>/<version>-preferredversion/…            second copy
//	resources/<resource.group>/<version>/…                             other versions
//
// An object in the version that the API server prefers is stored twice, without and with
// its version in the path. An object in another version is stored once.
//
// Writer writes objects, given as the JSON from the API server, as such a stream. Walk
// reads one and treats it as hostile: everything is limited, only regular files with a path
// of the grammar above are accepted, and nothing is ever extracted into a directory.
//
// A restore needs the objects in another order than in the archive, and more than once.
// NewSpool reads an archive once, to its end, verifies all of it, and keeps the content in
// one unnamed scratch file with an index in memory. No content is available before the
// verification, and later reads return exactly the verified bytes.
//
// Merge writes a new archive from an existing one and the objects of a second one, a Spool.
// The second one has the objects that were archived again after the operations of a backup
// had ended. The first one is streamed.
//
// The package does not know clusters, selection or stores; those belong to internal/backup
// and internal/storage.
package archive
