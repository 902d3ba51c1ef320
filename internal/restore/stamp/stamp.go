// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stamp writes and reads the annotation grapnel.dev/restored, "<outcome> <UID of the
// Restore> <MAC>". Every client that may write an object can write the annotation, so only the MAC
// proves that a Restore set it, and on this object; see docs/adr/0012-restore-stamps.md.
package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// Annotation is the name of the annotation.
const Annotation = "grapnel.dev/restored"

// The Secret with the key, in the namespace of the operator, and its entry.
const (
	KeySecret = "grapnel-restore-stamp-key" //nolint:gosec // the name of a Secret
	KeyEntry  = "key"
)

// Stamper writes and reads the annotations of one Restore.
type Stamper struct {
	// UID is that of the Restore. Key is a secret of the operator.
	UID string
	Key []byte
}

// IsEnabled reports whether objects are stamped and stamps are trusted.
func (s Stamper) IsEnabled() bool { return s.UID != "" && len(s.Key) > 0 }

// Value returns the annotation for an outcome of an object.
func (s Stamper) Value(target rawclient.Target, outcome string) string {
	return fmt.Sprintf("%s %s %s", outcome, s.UID, base64.RawURLEncoding.EncodeToString(s.computeMAC(target, outcome)))
}

// computeMAC binds an outcome to the restore and the object. The version of the resource is
// not included: the object can be read in another one.
func (s Stamper) computeMAC(target rawclient.Target, outcome string) []byte {
	hash := hmac.New(sha256.New, s.Key)
	// A hash never returns an error. With quoting, no two lists have the same text.
	_, _ = fmt.Fprintf(hash, "%q", []string{
		outcome, s.UID, target.Resource.Group, target.Resource.Resource, target.Namespace, target.Name,
	})
	return hash.Sum(nil)
}

// Parse returns what the Restore did to an object according to its annotation. A value that names
// the Restore without proof is foreign: another writer wrote it, or the key was replaced.
func (s Stamper) Parse(target rawclient.Target, value string) (outcome string, own, foreign bool) {
	outcome, rest, _ := strings.Cut(value, " ")
	uid, proof, _ := strings.Cut(rest, " ")
	if !s.IsEnabled() || uid != s.UID {
		return "", false, false
	}
	mac, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || !hmac.Equal(mac, s.computeMAC(target, outcome)) {
		return "", false, true
	}
	return outcome, true, false
}
