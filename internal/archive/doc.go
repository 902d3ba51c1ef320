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
// The package knows nothing about clusters, selection or stores; those belong
// to internal/backup and internal/backupstore.
package archive
