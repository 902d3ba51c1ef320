// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// The targets, by their limits.
	createTarget    = 1.3
	unchangedTarget = 0.5
	labelTarget     = 1.3

	// fewBackup has the objects that are restored alternating with the limit, and
	// manyBackup those that show what more of them cost.
	fewBackup, manyBackup = "few", "many"
	// existingPrefix begins the names of the namespaces that the first round
	// restored.
	existingPrefix = fewBackup + "-0-"
	// limitPrefix begins the names of the namespaces that the limit makes.
	limitPrefix = "limit-"
	// manyRounds is how often the objects of manyBackup are restored.
	manyRounds = 2
)

// few returns the numbers of the namespaces, and of the objects in them, that are
// restored: a fifth of the mix, 10,000 of 50,000.
func (m mix) few() (namespaces int, objects []int) {
	namespaces = max(1, m.namespaces/5)
	for i := range m.objects {
		if i%m.namespaces < namespaces {
			objects = append(objects, i)
		}
	}
	return namespaces, objects
}

// namespaceNames returns the names of the first n namespaces of the mix.
func namespaceNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, load.NamespaceName(i))
	}
	return names
}

// backUpForRestores makes the backups that are restored later, in another cluster.
func (m mix) backUpForRestores(ctx context.Context, e *environment) error {
	few, _ := m.few()
	return e.withOperator(ctx, func(*operator.Operator) error {
		_, err := runBackups(ctx, e.client,
			newBackup(fewBackup, namespaceNames(few)...), newBackup(manyBackup, namespaceNames(m.namespaces)...))
		return err
	})
}

// restoring is what restores yield.
type restoring struct {
	// objects are restored with the namespaces they are in.
	objects int
	// created, none and update are the seconds of restores by round: into new
	// namespaces, and onto unchanged objects with either policy.
	created, none, update []float64
	// growth of the resident memory in bytes, from an idle operator to the peak
	// of its first restore, by round, and of one with all objects of the mix.
	growth, growthMany []float64
	// posts, gets and patches are the limits.
	posts, gets, patches []raw.SendTimes
}

// measureRestoring restores into an empty control plane. The operator and the
// limit take turns, so that both see the same machine, and each has a control plane
// of its own: with every Service there is, the API server needs longer to create
// the next one, so that the second one would be slower.
func (m mix) measureRestoring(ctx context.Context, e *environment) (restoring, error) {
	namespaces, objects := m.few()
	r := restoring{objects: len(objects) + namespaces}
	for round := range m.rounds {
		err := e.withNewPlane(ctx, func(op *operator.Operator) error {
			growth, seconds, err := firstRestore(ctx, e, op, fewBackup, round, namespaces, r.objects)
			r.growth, r.created = append(r.growth, growth), append(r.created, seconds)
			if err != nil || round > 0 {
				return err
			}
			return m.measureUnchanged(ctx, e, &r)
		})
		if err != nil {
			return r, err
		}
		posts, err := m.measurePosts(ctx, e, namespaces, objects)
		if err != nil {
			return r, err
		}
		r.posts = append(r.posts, posts)
		e.note("Round %d: %d objects restored in %.2f s, limit %.2f s, memory +%.0f MiB",
			round+1, r.objects, r.created[round], r.posts[round].Seconds, r.growth[round]/mebibyte)
	}
	return r, m.measureMany(ctx, e, &r)
}

// measurePosts measures the limit of a restore of these objects into new namespaces, the first of
// the mix.
func (m mix) measurePosts(ctx context.Context, e *environment, namespaces int, objects []int) (limit raw.SendTimes, err error) {
	requests, err := m.createRequests(e.client, namespaces, objects)
	if err != nil {
		return limit, err
	}
	return limit, e.withNewPlane(ctx, func(*operator.Operator) error {
		return e.askLimit(ctx, requests, &limit, "send")
	})
}

// firstRestore makes the first restore of a fresh operator, into namespaces of
// which none exists.
func firstRestore(ctx context.Context, e *environment, op *operator.Operator, backup string, round, namespaces, objects int) (growth, seconds float64, err error) {
	name := fmt.Sprintf("%s-%d", backup, round)
	growth, err = growthDuring(op, func() error {
		seconds, err = runRestore(ctx, e, newRestore(name, backup, name+"-", namespaces), objects, created)
		return err
	})
	return growth, seconds, err
}

// measureUnchanged restores once more what was just restored, with both policies,
// by turns with the limit.
func (m mix) measureUnchanged(ctx context.Context, e *environment, r *restoring) error {
	namespaces, _ := m.few()
	for round := range m.rounds {
		for policy, seconds := range map[v1alpha1.ExistingResourcePolicy]*[]float64{
			v1alpha1.ExistingResourcePolicyNone: &r.none, v1alpha1.ExistingResourcePolicyUpdate: &r.update,
		} {
			again := newRestore(fmt.Sprintf("%s-%d", policy, round), fewBackup, existingPrefix, namespaces)
			again.Spec.ExistingResourcePolicy = policy
			s, err := runRestore(ctx, e, again, r.objects, unchanged)
			if err != nil {
				return err
			}
			*seconds = append(*seconds, s)
		}
		var gets, patches raw.SendTimes
		if err := e.askLimit(ctx, m.readRequests(), &gets, "send"); err != nil {
			return err
		}
		if err := e.askLimit(ctx, m.labelRequests(round), &patches, "send"); err != nil {
			return err
		}
		r.gets, r.patches = append(r.gets, gets), append(r.patches, patches)
		e.note("Round %d: %d unchanged objects, none %.2f s, limit %.2f s; update %.2f s, limit %.2f s",
			round+1, r.objects, r.none[round], gets.Seconds, r.update[round], patches.Seconds)
	}
	return nil
}

// measureMany restores all objects of the mix with a fresh operator.
func (m mix) measureMany(ctx context.Context, e *environment, r *restoring) error {
	for round := range min(m.rounds, manyRounds) {
		err := e.withNewPlane(ctx, func(op *operator.Operator) error {
			growth, seconds, err := firstRestore(ctx, e, op, manyBackup, round, m.namespaces, m.objects+m.namespaces)
			r.growthMany = append(r.growthMany, growth)
			e.note("Round %d: %d objects restored in %.2f s, memory +%.0f MiB", round+1, m.objects+m.namespaces, seconds, growth/mebibyte)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createRequests are those that create what a restore creates.
func (m mix) createRequests(c client.Client, namespaces int, objects []int) (raw.SendRequest, error) {
	target := func(i int) string { return limitPrefix + load.NamespaceName(i%m.namespaces) }
	var first, then []raw.Message
	for i := range namespaces {
		body, err := encode(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target(i)}})
		if err != nil {
			return raw.SendRequest{}, err
		}
		first = append(first, raw.Message{Path: "/api/v1/namespaces", Body: body})
	}
	for _, i := range objects {
		o := load.Object(i, m.namespaces)
		o.SetNamespace(target(i))
		body, err := encode(c, o)
		if err != nil {
			return raw.SendRequest{}, err
		}
		then = append(then, raw.Message{Path: load.Path(i, m.namespaces, target(i)), Body: body})
	}
	return raw.SendRequest{Workers: restore.DefaultWorkers, Steps: [][]raw.Message{first, then}}, nil
}

// encode returns the JSON of an object that a client of the API sends.
func encode(c client.Client, o client.Object) ([]byte, error) {
	gvk, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, fmt.Errorf("naming the kind of %T: %w", o, err)
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", o, err)
	}
	return body, nil
}

// readRequests are those that read, one by one, what the first round restored.
func (m mix) readRequests() raw.SendRequest {
	namespaces, objects := m.few()
	var messages []raw.Message
	for i := range namespaces {
		messages = append(messages, raw.Message{Path: "/api/v1/namespaces/" + existingPrefix + load.NamespaceName(i)})
	}
	for _, i := range objects {
		collection := load.Path(i, m.namespaces, existingPrefix+load.NamespaceName(i%m.namespaces))
		messages = append(messages, raw.Message{Path: collection + "/" + load.Object(i, m.namespaces).GetName()})
	}
	return raw.SendRequest{Workers: restore.DefaultWorkers, Steps: [][]raw.Message{messages}}
}

// labelRequests are those that label, one by one, what readRequests reads, as a restore does: it ignores this label
// when it compares objects.
func (m mix) labelRequests(round int) raw.SendRequest {
	requests := m.readRequests()
	for i := range requests.Steps[0] {
		requests.Steps[0][i].Patch = true
		requests.Steps[0][i].Body = fmt.Appendf(nil, `{"metadata":{"labels":{%q:"limit-%d"}}}`, v1alpha1.LabelRestoreName, round)
	}
	return requests
}

// figures of restores.
func (r *restoring) figures(m mix) []figure {
	posts, postGrowth := sent(r.posts)
	gets, _ := sent(r.gets)
	patches, _ := sent(r.patches)
	post, get, patch := raw.Median(posts), raw.Median(gets), raw.Median(patches)
	perObject := (raw.Median(r.growthMany) - raw.Median(r.growth)) / float64(m.objects+m.namespaces-r.objects)
	return []figure{
		newFigure(fmt.Sprintf("restore of %d objects into new namespaces", r.objects), "s",
			raw.Median(r.created), post, createTarget*post),
		newFigure(fmt.Sprintf("restore onto %d unchanged objects, policy none", r.objects), "s",
			raw.Median(r.none), get, unchangedTarget*get),
		newFigure(fmt.Sprintf("restore onto %d unchanged objects, policy update", r.objects), "s",
			raw.Median(r.update), patch, labelTarget*patch),
		newFigure(fmt.Sprintf("memory growth, restore of %d objects", r.objects), "MiB",
			slices.Max(r.growth)/mebibyte, raw.Median(postGrowth)/mebibyte, mixGrowthTarget),
		newFigure(fmt.Sprintf("memory growth per object restored beyond %d", r.objects), "bytes",
			perObject, m.nameBytes(), perObjectTarget),
	}
}

// rates says in absolute numbers how fast restores and their limits are.
func (r *restoring) rates() string {
	posts, _ := sent(r.posts)
	gets, _ := sent(r.gets)
	n := float64(r.objects)
	return fmt.Sprintf("raw POSTs by %d workers: %.0f objects/s; restore into new namespaces: %.0f objects/s\n"+
		"raw GETs by %d workers: %.0f objects/s; restore onto unchanged objects: %.0f objects/s (none), %.0f (update)",
		restore.DefaultWorkers, n/raw.Median(posts), n/raw.Median(r.created),
		restore.DefaultWorkers, n/raw.Median(gets), n/raw.Median(r.none), n/raw.Median(r.update))
}

func sent(times []raw.SendTimes) (seconds, growth []float64) {
	for _, t := range times {
		seconds, growth = append(seconds, t.Seconds), append(growth, float64(t.Growth))
	}
	return seconds, growth
}
