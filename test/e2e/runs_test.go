// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// backup applies a Backup of a namespace; a label says which Plugins are for it.
func (c *cluster) backup(ctx context.Context, name, namespaces, label string, more ...string) {
	GinkgoHelper()
	c.apply(ctx, fmt.Sprintf(`
apiVersion: grapnel.dev/v1alpha1
kind: Backup
metadata: {name: %s, namespace: grapnel-system, labels: {story: %s}}
spec:
  includedNamespaces: [%s]
%s`, name, label, namespaces, indent(strings.Join(more, "\n"))))
}

// restore applies a Restore of a backup.
func (c *cluster) restore(ctx context.Context, name, backup, label string, more ...string) {
	GinkgoHelper()
	c.apply(ctx, fmt.Sprintf(`
apiVersion: grapnel.dev/v1alpha1
kind: Restore
metadata: {name: %s, namespace: grapnel-system, labels: {story: %s}}
spec:
  backupName: %s
%s`, name, label, backup, indent(strings.Join(more, "\n"))))
}

func indent(lines string) string {
	if lines == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(lines, "\n", "\n  ")
}

// phase is that of an object in the operator's namespace, with its message, as in
// "backups/x".
func (c *cluster) phase(ctx context.Context, object string) func() (string, error) {
	return func() (string, error) {
		kind, name, _ := strings.Cut(object, "/")
		return c.try(ctx, "get", kind+".grapnel.dev", name, "-n", namespace, "-o", "jsonpath={.status.phase}")
	}
}

// ended waits until a Backup or Restore has ended and its clean-up is done, and returns its
// phase.
func (c *cluster) ended(ctx context.Context, run client.Object) v1alpha1.RunStatus {
	GinkgoHelper()
	var status v1alpha1.RunStatus
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
		switch of := run.(type) {
		case *v1alpha1.Backup:
			status = *of.Run()
		case *v1alpha1.Restore:
			status = *of.Run()
		}
		g.Expect(status.CompletionTimestamp).NotTo(BeNil(), "%s has not ended", run.GetName())
		runs, err := c.hookRuns(ctx, run)
		g.Expect(err).NotTo(HaveOccurred())
		for i := range runs {
			g.Expect(runs[i].Status.CompletionTimestamp).NotTo(BeNil(), "%s has not ended: %s", runs[i].Name, runs[i].Status.Message)
		}
	}).Should(Succeed())
	return status
}

// backupEnds waits for a Backup and expects a phase.
func (c *cluster) backupEnds(ctx context.Context, name string, want v1alpha1.RunPhase) *v1alpha1.Backup {
	GinkgoHelper()
	b := &v1alpha1.Backup{}
	b.Namespace, b.Name = namespace, name
	c.ended(ctx, b)
	Expect(b.Status.Phase).To(Equal(want), "%s", b.Status.Message)
	return b
}

// restoreEnds waits for a Restore and expects a phase.
func (c *cluster) restoreEnds(ctx context.Context, name string, want v1alpha1.RunPhase) *v1alpha1.Restore {
	GinkgoHelper()
	r := &v1alpha1.Restore{}
	r.Namespace, r.Name = namespace, name
	c.ended(ctx, r)
	Expect(r.Status.Phase).To(Equal(want), "%s", r.Status.Message)
	return r
}

// hookRuns returns the HookRuns of a Backup or Restore in the order of their creation.
func (c *cluster) hookRuns(ctx context.Context, of client.Object) ([]v1alpha1.HookRun, error) {
	var list v1alpha1.HookRunList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(of.GetUID())})
	return list.Items, err
}

// hookRun returns the HookRun of an action.
func (c *cluster) hookRun(ctx context.Context, of client.Object, hook v1alpha1.HookPoint, action string) v1alpha1.HookRun {
	GinkgoHelper()
	runs, err := c.hookRuns(ctx, of)
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(runs, func(r v1alpha1.HookRun) bool { return r.Spec.Hook == hook && r.Spec.ActionName == action })
	Expect(i).NotTo(BeNumerically("<", 0), "there is no HookRun of %s(%s)", hook, action)
	return runs[i]
}

// hookRunning waits until an action of a run is being called.
func (c *cluster) hookRunning(ctx context.Context, of client.Object, action string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(of), of)).To(Succeed())
		runs, err := c.hookRuns(ctx, of)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slices.ContainsFunc(runs, func(r v1alpha1.HookRun) bool {
			return r.Spec.ActionName == action && r.Status.Phase == v1alpha1.HookRunPhaseInProgress
		})).To(BeTrue(), "%s does not run", action)
	}).Should(Succeed())
}

// pluginReady waits until Plugins are loaded.
func (c *cluster) pluginReady(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		c.kubectl(ctx, "wait", "plugin/"+name, "--for=condition=Ready", "--timeout=60s")
	}
}

// created collects the UIDs of the objects of a kind that appear until the returned function
// is called.
func (c *cluster) created(ctx context.Context, list client.ObjectList, options ...client.ListOption) func() map[types.UID]client.Object {
	GinkgoHelper()
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w, err := c.Watch(watching, list, options...)
	Expect(err).NotTo(HaveOccurred())
	seen, done := map[types.UID]client.Object{}, make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if object, ok := event.Object.(client.Object); ok && event.Type == watch.Added {
				seen[object.GetUID()] = object
			}
		}
	}()
	return func() map[types.UID]client.Object {
		w.Stop()
		<-done
		cancel()
		return seen
	}
}
