// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin/pvc"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
)

var claims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// volumeList takes the claims of a run from all of its goroutines.
type volumeList struct {
	mu   sync.Mutex
	list []Volume
}

func (l *volumeList) add(v Volume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, v)
}

func (l *volumeList) sorted() []Volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(slices.Values(l.list), compareVolumes)
}

// noteVolume warns about a claim: an archive has no volume data. Where an action started an
// operation on it, there is something that takes care of the data, and tells how that ends.
func (c *collection) noteVolume(item list.Item) {
	if c.resource.GroupResource() != claims || !c.resource.Preferred || c.told.operates(c.resource.GVR, item) {
		return
	}
	// A claim that cannot be read here is archived all the same.
	volume, _ := pvc.VolumeName(item.JSON)
	c.volumes.add(Volume{Namespace: item.Namespace, Claim: item.Name, Volume: volume})
	c.results.Warn(results.Object(item.Namespace), fmt.Sprintf(
		"The data of PersistentVolumeClaim %q is not captured, only the objects are: "+
			"protect the volume by other means, or exclude the claim to acknowledge that", item.Key))
}
