// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filesystem is an object store in a directory: a local disk, a
// PersistentVolume or an NFS share. It needs no server and is the default.
//
// Every key is a file below the root, and every slash of a key is a directory. All access
// goes through one os.Root, so neither a key nor a symbolic link planted in the directory
// can lead outside of it.
//
// A Put writes a temporary file beside the final one (".grapnel-tmp-..."), syncs it to
// disk, renames it (or, for IfAbsent, links it, which makes IfAbsent atomic) and syncs the
// directory. A crash at any point leaves the old object or the new one, and perhaps a
// temporary file. List and Get ignore temporary files. A later Put into the same directory
// removes them, and so does RemoveStaleTempFiles. Put creates missing directories; Delete
// removes a directory with its last object.
//
// On file systems without hard links, Put with IfAbsent checks before it renames, which is
// not atomic. Capabilities reports this after the first such Put.
//
// The package is not for directories that people edit by hand at the same time.
package filesystem
