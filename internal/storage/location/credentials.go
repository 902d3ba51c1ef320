// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// credentialsDir is the directory of credentials files in the scratch directory.
const credentialsDir = "location-credentials"

// errLocationDeleted is the error of opening a deleted location.
var errLocationDeleted = errors.New("the location was deleted")

// errOpenerClosed is the error of opening a location after the last credentials were removed.
var errOpenerClosed = errors.New("the operator is stopping")

// credentialFiles tracks the locations of plugins, whose processes continue after the location is
// closed, and owns their credentials files.
type credentialFiles struct {
	mu      sync.Mutex
	entries map[types.UID]*credentialEntry
	// dir is the directory of credentials files, "" before it was cleared.
	dir string
	// closed means that nothing may be written any longer.
	closed bool
}

// credentialEntry is the state of one location.
type credentialEntry struct {
	key types.NamespacedName
	// plugin is the name of the Plugin that last provided the location.
	plugin string
	// file is the path of the credentials file, "" if there is none, and digest is the digest of
	// its content.
	file   string
	digest [sha256.Size]byte
	// openCounts counts the open Stores, by their credentials file.
	openCounts map[string]int
	// deleted means that the location was deleted. UIDs are never reused.
	deleted bool
}

// acquireCredentialFile records that a location is being opened with credentials, if it has any,
// and returns the path of their file. The caller must call the returned function when the location
// is closed. A file that was replaced meanwhile is removed only then, because a run may still use
// it.
func (k *credentialFiles) acquireCredentialFile(
	scratch string, bsl *v1alpha1.BackupStorageLocation, plugin string, credential []byte,
) (string, func() error, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return "", nil, errOpenerClosed
	}
	h := k.entries[bsl.UID]
	if h == nil {
		h = &credentialEntry{key: types.NamespacedName{Namespace: bsl.Namespace, Name: bsl.Name}, openCounts: map[string]int{}}
	}
	if h.deleted {
		return "", nil, errLocationDeleted
	}
	if k.entries == nil {
		k.entries = map[types.UID]*credentialEntry{}
	}
	k.entries[bsl.UID] = h
	h.plugin = plugin
	before := h.file
	if err := k.writeCredentialFile(scratch, bsl.UID, credential); err != nil {
		return "", nil, fmt.Errorf("writing the credentials of location %s for its plugin: %w", bsl.Name, err)
	}
	file := h.file
	h.openCounts[file]++
	h.removeIfUnused(before)
	return file, sync.OnceValue(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		h.openCounts[file]--
		h.removeIfUnused(file)
		return nil
	}), nil
}

// writeCredentialFile ensures that the file of a location has that content. New content gets
// a new path, which makes the plugin reconfigure the location.
func (k *credentialFiles) writeCredentialFile(scratch string, uid types.UID, content []byte) error {
	h := k.entries[uid]
	if len(content) == 0 {
		h.file = ""
		return nil
	}
	if err := k.createCredentialDir(scratch); err != nil {
		return err
	}
	digest := sha256.Sum256(content)
	if h.file != "" && h.digest == digest {
		if _, err := os.Stat(h.file); err == nil {
			return nil
		}
		return os.WriteFile(h.file, content, 0o600) // the directory was cleaned up externally
	}
	file, err := os.CreateTemp(k.dir, string(uid)+"-*") // with the mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	h.file, h.digest = file.Name(), digest
	return nil
}

// createCredentialDir creates the directory of credentials files, without files of a previous
// operator.
func (k *credentialFiles) createCredentialDir(scratch string) error {
	if err := k.clearCredentialDir(scratch); err != nil {
		return err
	}
	return os.MkdirAll(k.dir, 0o700)
}

// clearCredentialDir removes, once, the files that a killed operator left in the directory of
// credentials files.
func (k *credentialFiles) clearCredentialDir(scratch string) error {
	if k.dir != "" {
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(scratch, credentialsDir))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	k.dir = dir
	return nil
}

// removeIfUnused removes a credentials file that is no longer needed. A file that cannot be removed
// is removed with the directory.
func (h *credentialEntry) removeIfUnused(file string) {
	if h.openCounts[file] > 0 {
		return
	}
	delete(h.openCounts, file)
	if file != "" && file != h.file {
		_ = os.Remove(file)
	}
}

// dropCurrentFile removes the current credentials file of a location, at once or when the location
// is closed.
func (h *credentialEntry) dropCurrentFile() {
	file := h.file
	h.file = ""
	h.removeIfUnused(file)
}

// isLocationDeleted reports whether a location was deleted.
func (k *credentialFiles) isLocationDeleted(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.entries[uid]
	return h != nil && h.deleted
}

// lastProviderPlugin returns the name of the Plugin that last provided a location.
func (k *credentialFiles) lastProviderPlugin(uid types.UID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.entries[uid]; h != nil {
		return h.plugin
	}
	return ""
}

// dropUnusedCredentials drops the state of a location that currently cannot be opened, and
// reports whether there was any and it is not in use.
func (k *credentialFiles) dropUnusedCredentials(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.entries[uid]
	if h == nil || h.deleted || len(h.openCounts) > 0 {
		return false
	}
	h.dropCurrentFile()
	return true
}

// dropCredentials drops the state of a location that has another provider now, and reports
// whether there was any.
func (k *credentialFiles) dropCredentials(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.entries[uid]
	if h == nil || h.deleted {
		return false
	}
	h.dropCurrentFile()
	delete(k.entries, uid)
	return true
}

// markLocationsDeleted drops the state of all locations of a name, and returns their UIDs.
func (k *credentialFiles) markLocationsDeleted(key types.NamespacedName) []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var uids []types.UID
	for uid, h := range k.entries {
		if h.key == key && !h.deleted {
			h.deleted = true
			h.dropCurrentFile()
			uids = append(uids, uid)
		}
	}
	return uids
}

// clearLeftovers clears the directory of credentials files.
func (k *credentialFiles) clearLeftovers(scratch string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.clearCredentialDir(scratch); err != nil {
		return fmt.Errorf("removing the credentials of locations that a previous operator left: %w", err)
	}
	return nil
}

// markLocationReplaced permanently drops the state of one location, and reports whether there was
// any.
func (k *credentialFiles) markLocationReplaced(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.entries[uid]
	switch {
	case h == nil:
		if k.entries == nil {
			k.entries = map[types.UID]*credentialEntry{}
		}
		k.entries[uid] = &credentialEntry{deleted: true}
		return false
	case h.deleted:
		return false
	}
	h.deleted = true
	h.dropCurrentFile()
	return true
}

// removeAllFiles removes all credentials files, and prevents new ones.
func (k *credentialFiles) removeAllFiles() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.dir == "" {
		return nil
	}
	if err := os.RemoveAll(k.dir); err != nil {
		return fmt.Errorf("removing the credentials of locations: %w", err)
	}
	return nil
}
