// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filesystem is an object store in a directory: a local disk, a
// PersistentVolume or an NFS share. It needs no server and is the default.
//
// Every key is a file below the root, every slash of a key a directory. All
// access goes through one os.Root, so that neither a key nor a symbolic link
// planted in the directory can lead outside of it.
//
// A Put writes a temporary file beside the final one (".grapnel-tmp-..."),
// forces it to disk, renames it (or links it, for IfAbsent, which is what
// makes that atomic) and forces the directory to disk. A crash at any point
// leaves the old object, or the new one, and perhaps a temporary file, which
// is invisible to List and Get and is removed by a later Put into the same
// directory, or by Sweep. Directories are made when needed and removed when their
// last object is deleted.
//
// On file systems without hard links Put with IfAbsent looks before it renames,
// which is not atomic; Capabilities says so after the first such Put.
//
// It is not for directories that people edit by hand meanwhile.
package filesystem
