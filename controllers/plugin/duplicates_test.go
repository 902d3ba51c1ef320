// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// awaitDuplicates waits until a Plugin reports, or does not report, that another one
// registers the same actions.
func awaitDuplicates(env *suite.Env, p *v1alpha1.Plugin, text string) {
	suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
		c := conditions.Get(p, v1alpha1.ConditionDuplicateActions)
		switch {
		case text == "" && c != nil:
			return "the message is still " + c.Message
		case text != "" && (c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, text) ||
			!strings.Contains(p.Status.Message, text)):
			return fmt.Sprintf("DuplicateActions is %+v, message %q, want %q", c, p.Status.Message, text)
		}
		return ""
	})
}

var _ = Describe("Plugins that register the same action", Label("plugins"), func() {
	It("checks that both Plugins report an action that both register", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		both := atomic.Bool{}
		both.Store(true)
		shared := catalog.Action{Kind: "BackupItemAction", Version: "v1", Name: "example.io/item"}
		plugins := &loader{load: func(_ context.Context, spec catalog.Spec) (catalog.Info, error) {
			info := catalog.Info{Actions: []catalog.Action{shared}, Ignored: []string{"VolumeSnapshotter velero.io/aws"}}
			switch {
			case !both.Load():
			case strings.HasSuffix(spec.Process.Path, "younger"):
				return info, &catalog.LoadError{Reason: catalog.ReasonDuplicateAction, Message: "an older Plugin provides it: remove one of the two"}
			default:
				info.ConflictingPlugins = []catalog.ConflictingPlugin{{Plugin: "the-younger", Action: shared.ID()}}
			}
			return info, nil
		}}
		changed := make(chan string)
		operator(t, env, plugins, retryAfter(time.Hour), func(r *plugin.Reconciler) { r.CatalogChanges = changed })
		older, younger := create(t, env, command("older")), create(t, env, command("younger"))
		await(env, older, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		awaitDuplicates(env, older, "Plugin the-younger registers BackupItemAction(example.io/item) too")
		env.WaitForEvent(older, "Warning DuplicateAction: Plugin the-younger registers")
		await(env, younger, metav1.ConditionFalse, "DuplicateAction")
		awaitDuplicates(env, younger, "remove one of the two")
		if len(younger.Status.Actions) != 1 || len(younger.Status.Ignored) != 1 {
			t.Errorf("the actions of the refused Plugin are missing: %+v", younger.Status)
		}

		both.Store(false)
		changed <- older.Name
		changed <- younger.Name
		awaitDuplicates(env, older, "")
		await(env, younger, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		awaitDuplicates(env, younger, "")
		if older.Status.Message != "" || younger.Status.Message != "" {
			t.Errorf("remaining messages: %q and %q", older.Status.Message, younger.Status.Message)
		}
	})
})
