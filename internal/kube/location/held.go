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

// credentialsDir is the folder of credentials files in the scratch folder.
const credentialsDir = "location-credentials"

// errGone is for locations that are opened after they were deleted.
var errGone = errors.New("the location was deleted")

// errClosed is for locations that are opened after the last credentials were removed.
var errClosed = errors.New("the operator is stopping")

// keeper remembers what there is for locations that plugins keep beyond the time that
// they are open, and owns their credentials files.
type keeper struct {
	mu   sync.Mutex
	held map[types.UID]*held
	// dir is the folder of credentials files, "" before it was cleared.
	dir string
	// closed is set when nothing may be written any more.
	closed bool
}

// held is what is kept for one location.
type held struct {
	key types.NamespacedName
	// plugin is the name of the Plugin that provided it last.
	plugin string
	// file is the path of its credentials, "" if it has none, and digest that of their
	// content.
	file   string
	digest [sha256.Size]byte
	// open counts the open Stores, by their credentials file.
	open map[string]int
	// gone is set when the location was deleted. UIDs do not come back.
	gone bool
}

// hold notes that a location is being opened with credentials, if it has any, and
// returns the path of their file. The function that it returns is called when the
// location is closed: a file that was replaced meanwhile is removed then, and not from
// under a run.
func (k *keeper) hold(
	scratch string, bsl *v1alpha1.BackupStorageLocation, plugin string, credential []byte,
) (string, func() error, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return "", nil, errClosed
	}
	h := k.held[bsl.UID]
	if h == nil {
		h = &held{key: types.NamespacedName{Namespace: bsl.Namespace, Name: bsl.Name}, open: map[string]int{}}
	}
	if h.gone {
		return "", nil, errGone
	}
	if k.held == nil {
		k.held = map[types.UID]*held{}
	}
	k.held[bsl.UID] = h
	h.plugin = plugin
	before := h.file
	if err := k.write(scratch, bsl.UID, credential); err != nil {
		return "", nil, fmt.Errorf("writing the credentials of location %s for its plugin: %w", bsl.Name, err)
	}
	file := h.file
	h.open[file]++
	h.tidy(before)
	return file, sync.OnceValue(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		h.open[file]--
		h.tidy(file)
		return nil
	}), nil
}

// write sees to it that the file of a location has that content. Another content gets
// another path, so that the plugin is configured again.
func (k *keeper) write(scratch string, uid types.UID, content []byte) error {
	h := k.held[uid]
	if len(content) == 0 {
		h.file = ""
		return nil
	}
	if err := k.makeDir(scratch); err != nil {
		return err
	}
	digest := sha256.Sum256(content)
	if h.file != "" && h.digest == digest {
		if _, err := os.Stat(h.file); err == nil {
			return nil
		}
		return os.WriteFile(h.file, content, 0o600) // somebody tidied up the folder
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

// makeDir makes the folder of credentials files, without anything of an earlier operator.
func (k *keeper) makeDir(scratch string) error {
	if err := k.clear(scratch); err != nil {
		return err
	}
	return os.MkdirAll(k.dir, 0o700)
}

// clear removes what an operator that was killed left in the folder of credentials
// files, once.
func (k *keeper) clear(scratch string) error {
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

// tidy removes a credentials file that nobody needs any more. What cannot be removed
// goes with the folder.
func (h *held) tidy(file string) {
	if h.open[file] > 0 {
		return
	}
	delete(h.open, file)
	if file != "" && file != h.file {
		_ = os.Remove(file)
	}
}

// drop removes the current credentials of a location, or has them removed when it is
// closed.
func (h *held) drop() {
	file := h.file
	h.file = ""
	h.tidy(file)
}

// isGone reports whether a location was deleted.
func (k *keeper) isGone(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[uid]
	return h != nil && h.gone
}

// provided returns the name of the Plugin that provided a location last.
func (k *keeper) provided(uid types.UID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[uid]; h != nil {
		return h.plugin
	}
	return ""
}

// retire drops what is kept for a location that can not be opened as it is now, and
// reports whether there was anything and nobody uses it.
func (k *keeper) retire(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[uid]
	if h == nil || h.gone || len(h.open) > 0 {
		return false
	}
	h.drop()
	return true
}

// forget drops what is kept for a location that has another provider now, and reports
// whether there was anything.
func (k *keeper) forget(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[uid]
	if h == nil || h.gone {
		return false
	}
	h.drop()
	delete(k.held, uid)
	return true
}

// deleted drops what is kept for the locations of a name, and returns their UIDs.
func (k *keeper) deleted(key types.NamespacedName) []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var uids []types.UID
	for uid, h := range k.held {
		if h.key == key && !h.gone {
			h.gone = true
			h.drop()
			uids = append(uids, uid)
		}
	}
	return uids
}

// begin clears the folder of credentials files.
func (k *keeper) begin(scratch string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.clear(scratch); err != nil {
		return fmt.Errorf("removing the credentials of locations that an earlier operator left: %w", err)
	}
	return nil
}

// replaced drops what is kept for one location, and reports whether there was anything.
// Nothing will be kept for it any more.
func (k *keeper) replaced(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[uid]
	switch {
	case h == nil:
		if k.held == nil {
			k.held = map[types.UID]*held{}
		}
		k.held[uid] = &held{gone: true}
		return false
	case h.gone:
		return false
	}
	h.gone = true
	h.drop()
	return true
}

// close removes all credentials files, and lets none be written after that.
func (k *keeper) close() error {
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
