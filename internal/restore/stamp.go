// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// stamper writes and reads the annotation RestoredAnnotation, "<outcome> <UID of
// the restore> <MAC>". Every client that may write an object can write the annotation, so
// only the MAC proves that this restore set it, and on this object; see
// docs/adr/0012-restore-stamps.md.
type stamper struct {
	uid string
	key []byte
}

// newStamper returns the stamper of the run.
func (r *enginePass) newStamper() stamper { return stamper{uid: r.req.RestoreUID, key: r.req.StampKey} }

// isEnabled reports whether objects are stamped and stamps are trusted.
func (s stamper) isEnabled() bool { return s.uid != "" && len(s.key) > 0 }

// annotationValue returns the annotation for an outcome of an object.
func (s stamper) annotationValue(target rawclient.Target, outcome Outcome) string {
	return fmt.Sprintf("%s %s %s", outcome, s.uid, base64.RawURLEncoding.EncodeToString(s.computeMAC(target, outcome)))
}

// computeMAC binds an outcome to the restore and the object. The version of the resource is
// not included: the object can be read in another one.
func (s stamper) computeMAC(target rawclient.Target, outcome Outcome) []byte {
	hash := hmac.New(sha256.New, s.key)
	// A hash never returns an error. With quoting, no two lists have the same text.
	_, _ = fmt.Fprintf(hash, "%q", []string{
		string(outcome), s.uid, target.Resource.Group, target.Resource.Resource, target.Namespace, target.Name,
	})
	return hash.Sum(nil)
}

// parseAnnotation returns what this restore did to an object according to its annotation. A
// value that names this restore without proof is foreign: another writer wrote it, or the
// key was replaced.
func (s stamper) parseAnnotation(target rawclient.Target, value string) (outcome Outcome, own, foreign bool) {
	word, rest, _ := strings.Cut(value, " ")
	uid, proof, _ := strings.Cut(rest, " ")
	if !s.isEnabled() || uid != s.uid {
		return "", false, false
	}
	outcome = Outcome(word)
	mac, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || !slices.Contains([]Outcome{Created, Updated, Recreated}, outcome) || !hmac.Equal(mac, s.computeMAC(target, outcome)) {
		return "", false, true
	}
	return outcome, true, false
}

// foreignStampWarning is the warning about an annotation that names this restore without proof.
const foreignStampWarning = "its annotation " + RestoredAnnotation + " names this restore, which did not set it; " +
	"the object is treated like any other existing object: find out who set the annotation, and remove it"

// stampObject records on an object what this restore does to it.
func (r *enginePass) stampObject(target rawclient.Target, object *unstructured.Unstructured, outcome Outcome) {
	if !r.newStamper().isEnabled() {
		return
	}
	annotations := action.GetMap(object.Object, "metadata", "annotations")
	if annotations == nil {
		annotations = map[string]any{}
		action.GetMap(object.Object, "metadata")["annotations"] = annotations
	}
	annotations[RestoredAnnotation] = r.newStamper().annotationValue(target, outcome)
}

// readStamp returns what this restore did to an existing object before it was interrupted;
// see parseAnnotation.
func (r *enginePass) readStamp(target rawclient.Target, object map[string]any) (outcome Outcome, own, foreign bool) {
	return r.newStamper().parseAnnotation(target, action.Get[string](object, "metadata", "annotations", RestoredAnnotation))
}
