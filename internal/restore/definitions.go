// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// writtenCRD is a CustomResourceDefinition that this run wrote.
type writtenCRD struct {
	target   rawclient.Target
	resource schema.GroupResource
	// versions are the served versions.
	versions []string
	// established reports that the cluster has accepted it.
	established bool
}

// writtenCRDList has the definitions that this run wrote. It is safe for concurrent use.
type writtenCRDList struct {
	mu   sync.Mutex
	crds []writtenCRD
}

func (d *writtenCRDList) addWrittenCRD(object *unstructured.Unstructured) {
	gvk := object.GroupVersionKind()
	written := writtenCRD{
		target: rawclient.Target{Resource: gvk.GroupVersion().WithResource(crdResource.Resource), Name: object.GetName()},
		resource: schema.GroupResource{
			Group:    action.Get[string](object.Object, "spec", "group"),
			Resource: action.Get[string](object.Object, "spec", "names", "plural"),
		},
	}
	for version := range action.EachMap(object.Object, "spec", "versions") {
		if action.Get[bool](version, "served") {
			written.versions = append(written.versions, action.Get[string](version, "name"))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crds = append(d.crds, written)
}

func (d *writtenCRDList) definesResource(resource schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, written := range d.crds {
		if written.resource == resource {
			return true
		}
	}
	return false
}

// restoreCRDs restores the CustomResourceDefinitions, waits until the cluster serves their
// resources, and repeats discovery.
func (r *enginePass) restoreCRDs(ctx context.Context, p *planner) error {
	for _, resource := range r.req.Archive.Resources() {
		if schema.ParseGroupResource(resource.Name) != crdResource {
			continue
		}
		k, err := p.planResource(ctx, resource)
		if err != nil {
			return err
		}
		r.kinds[crdResource] = k
		if err := p.selectNeededCRDs(ctx, k); err != nil {
			return err
		}
		r.outcomes.total.Add(int64(k.countSelected()))
		r.restoreKinds(ctx, []*kind{k})
	}
	if len(r.writtenCRDs.crds) == 0 {
		return nil
	}
	if r.req.DryRun {
		for _, written := range r.writtenCRDs.crds {
			r.dryRunCRDVersions[written.resource] = written.versions
		}
		return nil
	}
	r.waitForEstablishedCRDs(ctx)
	return r.waitForServedCRDs(ctx)
}

// selectNeededCRDs selects the definitions of selected objects that the cluster does not
// serve, if definitions are only included as related items.
func (p *planner) selectNeededCRDs(ctx context.Context, k *kind) error {
	if k.inclusion != selection.RelatedOnly {
		return nil
	}
	own, err := p.listStampedCRDs(ctx, k)
	if err != nil {
		return err
	}
	for _, resource := range p.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		definition, ok := k.findEntry("", resource.Name) // it has the name of its resource
		if !ok || !p.hasSelectedObjects(gr, p.archivedObjects(resource, p.defaultStoredVersion(resource))) {
			continue
		}
		_, served := p.served.PreferredVersion(gr)
		definition.selected = !served || own[definition.Name]
	}
	return nil
}

// listStampedCRDs returns the definitions that this restore wrote before it was
// interrupted: their resources are served since then, and they are still part of the
// restore.
func (p *planner) listStampedCRDs(ctx context.Context, k *kind) (map[string]bool, error) {
	own := map[string]bool{}
	if !p.newStamper().IsEnabled() || p.req.DryRun || !k.isServed {
		return own, nil
	}
	_, err := p.cluster.List(ctx, rawclient.ListRequest{
		ResourceKind: toListKind(k.served), LabelSelector: action.LabelRestoreName + "=" + names.LabelValue(p.req.RestoreName), Slots: p.listSlots,
	}, rawclient.Handler{Batch: func(batch *rawclient.Batch) error {
		defer batch.Release()
		for _, item := range batch.Items {
			existing := map[string]any{}
			if err := json.Unmarshal(item.JSON, &existing); err != nil {
				return fmt.Errorf("decoding definition %s: %w", item.Name, err)
			}
			target := rawclient.Target{Resource: k.served.GVR, Name: item.Name}
			_, own[item.Name], _ = p.readStamp(target, existing)
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("looking for definitions that this restore already wrote: %w", err)
	}
	return own, nil
}

// waitForEstablishedCRDs waits for all definitions concurrently.
func (r *enginePass) waitForEstablishedCRDs(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, r.engine.opts.WaitTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i := range r.writtenCRDs.crds {
		written := &r.writtenCRDs.crds[i]
		r.startGoroutine(&wg, func() {
			if !r.acquireWorkerSlot(waiting) {
				return
			}
			defer r.releaseWorkerSlot()
			last := "it has no conditions"
			err := r.cluster.Wait(waiting, written.target, func(object []byte) (bool, error) {
				established, state, err := establishedCondition(object)
				last = state
				return established, err
			})
			written.established = err == nil
			if err != nil && ctx.Err() == nil {
				r.results.Error(subjectOfTarget(written.target), results.ReasonNotServed, fmt.Errorf("%s was restored and is not established (%s): %w", written.target, last, err))
			}
		})
	}
	wg.Wait()
}

// errNamesNotAccepted means that the names of a definition are taken.
var errNamesNotAccepted = errors.New("its names are not accepted")

// establishedCondition reads the conditions of a definition.
func establishedCondition(object []byte) (established bool, state string, err error) {
	if object == nil {
		return false, "it was deleted", nil
	}
	var definition struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(object, &definition); err != nil {
		return false, "", fmt.Errorf("decoding a definition: %w", err)
	}
	state = "it has no conditions"
	for _, condition := range definition.Status.Conditions {
		switch {
		case condition.Type == "NamesAccepted" && condition.Status == "False":
			return false, condition.Message, errNamesNotAccepted
		case condition.Type == "Established" && condition.Status == "True":
			established = true
		case condition.Type == "Established":
			state = condition.Message
		}
	}
	return established, state, nil
}

// waitForServedCRDs repeats discovery until the cluster serves the resources of the
// definitions. For a resource that is not served in time, its objects report that.
func (r *enginePass) waitForServedCRDs(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, r.engine.opts.WaitTimeout)
	defer cancel()
	for n := 1; ; n++ {
		if err := r.discoverResources(ctx); err != nil {
			return err
		}
		if r.hasServedCRDs() || r.engine.opts.Sleep(waiting, rawclient.BackoffDelay(n)) != nil {
			return nil
		}
	}
}

func (r *enginePass) hasServedCRDs() bool {
	for _, written := range r.writtenCRDs.crds {
		if !written.established {
			continue
		}
		for _, version := range written.versions {
			if _, ok := r.findServedVersion(written.resource.WithVersion(version)); !ok {
				return false
			}
		}
	}
	return true
}
