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

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/kube/write"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// definition is a CustomResourceDefinition that this run wrote.
type definition struct {
	target   write.Target
	resource schema.GroupResource
	// versions that it serves.
	versions []string
	// established says that the cluster has accepted it.
	established bool
}

// definitions are those that this run wrote. It is safe for concurrent use.
type definitions struct {
	mu      sync.Mutex
	written []definition
}

func (d *definitions) add(object *unstructured.Unstructured) {
	gvk := object.GroupVersionKind()
	written := definition{
		target: write.Target{Resource: gvk.GroupVersion().WithResource(definitionsResource.Resource), Name: object.GetName()},
		resource: schema.GroupResource{
			Group:    field.Get[string](object.Object, "spec", "group"),
			Resource: field.Get[string](object.Object, "spec", "names", "plural"),
		},
	}
	for version := range field.Maps(object.Object, "spec", "versions") {
		if field.Get[bool](version, "served") {
			written.versions = append(written.versions, field.Get[string](version, "name"))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written = append(d.written, written)
}

func (d *definitions) has(resource schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, written := range d.written {
		if written.resource == resource {
			return true
		}
	}
	return false
}

// restoreDefinitions restores the CustomResourceDefinitions, waits until the
// cluster serves what they define, and looks at the cluster again.
func (r *run) restoreDefinitions(ctx context.Context, p *planner) error {
	for _, resource := range r.req.Archive.Resources() {
		if schema.ParseGroupResource(resource.Name) != definitionsResource {
			continue
		}
		k, err := p.plan(ctx, resource)
		if err != nil {
			return err
		}
		r.kinds[definitionsResource] = k
		if err := p.selectNeeded(ctx, k); err != nil {
			return err
		}
		r.log.total.Add(int64(k.countSelected()))
		r.restoreKinds(ctx, []*kind{k})
	}
	if len(r.definitions.written) == 0 {
		return nil
	}
	if r.req.DryRun {
		for _, written := range r.definitions.written {
			r.promised[written.resource] = written.versions
		}
		return nil
	}
	r.awaitEstablished(ctx)
	return r.discoverDefined(ctx)
}

// selectNeeded selects the definitions of selected objects that the cluster
// does not serve, where definitions come only along with others.
func (p *planner) selectNeeded(ctx context.Context, k *kind) error {
	if k.inclusion != selection.RelatedOnly {
		return nil
	}
	own, err := p.ownDefinitions(ctx, k)
	if err != nil {
		return err
	}
	for _, resource := range p.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		definition, ok := k.find("", resource.Name) // it is called like its resource
		if !ok || !p.anySelected(gr, p.objects(resource, p.folder(resource))) {
			continue
		}
		_, served := p.served.For(gr)
		definition.selected = !served || own[definition.Name]
	}
	return nil
}

// ownDefinitions returns those that this restore wrote before it was interrupted: what
// they define is served since, and they are still a part of what was restored.
func (p *planner) ownDefinitions(ctx context.Context, k *kind) (map[string]bool, error) {
	own := map[string]bool{}
	if p.req.RestoreUID == "" || p.req.DryRun || !k.isServed {
		return own, nil
	}
	_, err := p.cluster.List(ctx, list.Request{
		Kind: kindOf(k.served), LabelSelector: clean.LabelRestoreName + "=" + shortname.Label(p.req.RestoreName), Places: p.lists,
	}, list.Handler{Batch: func(batch *list.Batch) error {
		defer batch.Release()
		for _, item := range batch.Items {
			existing := map[string]any{}
			if err := json.Unmarshal(item.JSON, &existing); err != nil {
				return fmt.Errorf("decoding definition %s: %w", item.Name, err)
			}
			if _, stamped := p.stamped(existing); stamped {
				own[item.Name] = true
			}
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("looking for definitions that this restore wrote already: %w", err)
	}
	return own, nil
}

// awaitEstablished waits for all definitions at the same time.
func (r *run) awaitEstablished(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, r.engine.opts.Wait)
	defer cancel()
	var wg sync.WaitGroup
	for i := range r.definitions.written {
		written := &r.definitions.written[i]
		wg.Go(func() {
			if !r.enter(waiting) {
				return
			}
			defer r.leave()
			last := "it has no conditions"
			err := r.cluster.Wait(waiting, written.target, func(object []byte) (bool, error) {
				established, state, err := isEstablished(object)
				last = state
				return established, err
			})
			written.established = err == nil
			if err != nil && ctx.Err() == nil {
				r.results.Error(results.Object(""), fmt.Errorf("%s was restored and is not established (%s): %w", written.target, last, err))
			}
		})
	}
	wg.Wait()
}

// errNotAccepted says that the names of a definition are taken.
var errNotAccepted = errors.New("its names are not accepted")

// isEstablished reads the conditions of a definition.
func isEstablished(object []byte) (established bool, state string, err error) {
	if object == nil {
		return false, "it is gone", nil
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
			return false, condition.Message, errNotAccepted
		case condition.Type == "Established" && condition.Status == "True":
			established = true
		case condition.Type == "Established":
			state = condition.Message
		}
	}
	return established, state, nil
}

// discoverDefined looks at the cluster until it serves what was defined. What
// it does not serve in time, its objects will say.
func (r *run) discoverDefined(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, r.engine.opts.Wait)
	defer cancel()
	for n := 1; ; n++ {
		if err := r.discover(ctx); err != nil {
			return err
		}
		if r.servesDefined() || r.engine.opts.Sleep(waiting, request.Delay(n)) != nil {
			return nil
		}
	}
}

func (r *run) servesDefined() bool {
	for _, written := range r.definitions.written {
		if !written.established {
			continue
		}
		for _, version := range written.versions {
			if _, ok := r.servedIn(written.resource.WithVersion(version)); !ok {
				return false
			}
		}
	}
	return true
}
