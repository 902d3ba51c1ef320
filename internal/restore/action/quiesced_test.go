// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestQuiescedAction_Execute(t *testing.T) {
	apps := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	}
	object := func(kind, more, spec string) string {
		saved := fmt.Sprintf(`{\"v\":1,\"kind\":%q,\"uid\":\"u\"%s,\"holders\":[]}`, kind, more)
		saved = strings.ReplaceAll(saved, `:"`+kind+`"`, `:\"`+kind+`\"`)
		return `{"metadata":{"name":"web","annotations":{"grapnel.dev/quiesced":"` + saved + `"}},"spec":` + spec + `}`
	}
	const three = `,\"replicas\":3`
	warned := func(had, advice string) itemaction.Result {
		return itemaction.Result{Warnings: []string{"it was restored stopped, because it was archived while a backup had it quiesced; before that it " +
			had + ". No action of this restore starts it: " + advice + ", or restore it with a PostRestoreAction of quiesce"}}
	}
	cases := map[string]Case{
		"a Deployment": {Resource: apps("deployments"), Archived: object("Deployment", three, `{"replicas":0}`), Result: warned("had 3 replicas", "scale it by hand")},
		"an action starts it": {
			Resource: apps("deployments"), Archived: object("Deployment", three, `{"replicas":0}`), Restore: itemaction.RestoreContext{HasUnquiesceAction: true},
		},
		"a DaemonSet": {
			Resource: apps("daemonsets"), Archived: object("DaemonSet", "", `{"template":{"spec":{"nodeSelector":{"grapnel.dev/quiesced":"true"}}}}`),
			Result: warned("ran on nodes", "remove grapnel.dev/quiesced from its node selector"),
		},
		"a CronJob": {
			Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"},
			Archived: object("CronJob", "", `{"suspend":true}`), Result: warned("was not suspended", "resume it by hand"),
		},
		"stopped before":             {Resource: apps("deployments"), Archived: object("Deployment", `,\"already\":true`, `{"replicas":0}`)},
		"started by a user":          {Resource: apps("deployments"), Archived: object("Deployment", three, `{"replicas":2}`)},
		"as many as by default":      {Resource: apps("deployments"), Archived: object("Deployment", three, `{}`)},
		"given back by the deadline": {Resource: apps("deployments"), Archived: object("Deployment", three+`,\"ended\":true`, `{"replicas":0}`)},
		"copied from a Deployment":   {Resource: apps("replicasets"), Archived: object("Deployment", three, `{"replicas":0}`)},
		"unreadable":                 {Resource: apps("deployments"), Archived: object("Deployment", `x`, `{"replicas":0}`)},
		"never quiesced":             {Resource: apps("deployments"), Archived: `{"metadata":{"name":"web"},"spec":{"replicas":0}}`},
	}
	for name, c := range cases {
		c.Want = c.Archived // the object is not changed
		cases[name] = c
	}
	RunCases(t, NewQuiescedAction(), cases)
}
