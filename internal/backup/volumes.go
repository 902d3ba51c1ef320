// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

var persistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// volumeList collects the claims of a run. It is safe for concurrent use.
type volumeList struct {
	mu        sync.Mutex
	collected []Volume
}

func (l *volumeList) addVolume(v Volume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collected = append(l.collected, v)
}

func (l *volumeList) sortedVolumes() []Volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(slices.Values(l.collected), compareVolumes)
}

// recordVolume warns about a claim: an archive has no volume data. If an action started an
// operation on the claim, that operation captures the data and reports its outcome.
func (c *collection) recordVolume(item rawclient.Item) {
	if c.resource.GroupResource() != persistentVolumeClaims || !c.resource.Preferred || c.reports.hasOperation(c.resource.GVR, item) {
		return
	}
	// A claim that cannot be parsed here is still archived.
	volume, _ := action.VolumeName(item.JSON)
	c.volumes.addVolume(Volume{Namespace: item.Namespace, ClaimName: item.Name, VolumeName: volume})
	c.results.Warn(c.subject(item.Namespace, item.Name), results.ReasonDataNotCaptured, fmt.Sprintf(
		"The data of PersistentVolumeClaim %q is not captured, only the objects are: "+
			"protect the volume by other means, or exclude the claim to acknowledge that", item.Key))
}
