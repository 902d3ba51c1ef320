// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// freezes is the list of actions of most Plugins in these tests.
const freezes = `[{name: freeze, kind: PreBackupAction}]`

// pluginOf returns a Plugin with one executor, as a user writes it.
func pluginOf(executor, fields string) string {
	return fmt.Sprintf(`{spec: {executor: {%s: {%s}}, actions: %s}}`, executor, fields, freezes)
}

func TestExecutorAdmission(t *testing.T) {
	plugin := func(executor, actions string) string {
		return fmt.Sprintf(`{spec: {executor: {%s}, actions: %s}}`, executor, actions)
	}
	const (
		job     = `job: {image: i}`
		podExec = `podExec: {selector: {matchLabels: {app: db}}, command: [freeze]}`
		webhook = `webhook: {url: "https://a"}`
		quiesce = `builtin: {quiesce: {}}`
	)
	kinds := func(kinds ...string) string {
		var list []string
		for _, kind := range kinds {
			list = append(list, `{name: freeze, kind: `+kind+`}`)
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	everyHook := kinds("PreBackupAction", "PostBackupAction", "PreRestoreAction", "PostRestoreAction", "DeleteAction")
	checkAdmission(t, "Plugin", map[string]admission{
		"two executors":           {body: plugin(job+", "+webhook, freezes), rejected: "set exactly one executor"},
		"grpc announces":          {body: `{spec: {executor: {grpc: {address: "unix:///run/p.sock"}}}}`},
		"no actions":              {body: `{spec: {executor: {` + job + `}}}`, rejected: "list the actions: this executor announces none"},
		"an empty list":           {body: plugin(webhook, `[]`), rejected: "list the actions: this executor announces none"},
		"every hook, job":         {body: plugin(job, everyHook)},
		"every hook, podExec":     {body: plugin(podExec, everyHook)},
		"every hook, webhook":     {body: plugin(webhook, everyHook)},
		"every hook, quiesce":     {body: plugin(quiesce, everyHook), rejected: "a builtin executor has no DeleteAction"},
		"every run, quiesce":      {body: plugin(quiesce, kinds("PreBackupAction", "PostBackupAction", "PreRestoreAction", "PostRestoreAction"))},
		"item actions, grpc":      {body: plugin(`grpc: {address: "unix:///p"}`, kinds("BackupItemAction", "ObjectStore"))},
		"item actions, job":       {body: plugin(job, kinds("BackupItemAction")), rejected: "this executor runs hooks and DeleteActions only"},
		"object store, webhook":   {body: plugin(webhook, kinds("ObjectStore")), rejected: "this executor runs hooks and DeleteActions only"},
		"item deletion, podExec":  {body: plugin(podExec, kinds("DeleteItemAction")), rejected: "this executor runs hooks and DeleteActions only"},
		"command of an action":    {body: plugin(job, `[{name: f, kind: PreBackupAction, command: [sh, -c, "x"]}]`)},
		"command for a webhook":   {body: plugin(webhook, `[{name: f, kind: PreBackupAction, command: [sh]}]`), rejected: "command is for actions of the executors job and podExec"},
		"command for quiesce":     {body: plugin(quiesce, `[{name: f, kind: PreBackupAction, command: [sh]}]`), rejected: "command is for actions of the executors job and podExec"},
		"command for a process":   {body: plugin(`process: {command: p}`, `[{name: f, kind: PreBackupAction, command: [sh]}]`), rejected: "command is for actions"},
		"a command of 16 KiB":     {body: plugin(job, `[{name: f, kind: PreBackupAction, command: [`+strings.Repeat("x", 16384)+`]}]`)},
		"a longer command":        {body: plugin(job, `[{name: f, kind: PreBackupAction, command: [`+strings.Repeat("x", 16385)+`]}]`), rejected: "Too long: may not be more than 16384"},
		"too many words":          {body: plugin(job, `[{name: f, kind: PreBackupAction, command: `+repeat(65)+`}]`), rejected: "must have at most 64 items"},
		"path of an action":       {body: plugin(webhook, `[{name: f, kind: PreBackupAction, path: /freeze}]`)},
		"path for a job":          {body: plugin(job, `[{name: f, kind: PreBackupAction, path: /freeze}]`), rejected: "path is for actions of the executor webhook"},
		"path with a query":       {body: plugin(webhook, `[{name: f, kind: PreBackupAction, path: "/freeze?all=1"}]`), rejected: "actions[0].path"},
		"path that is none":       {body: plugin(webhook, `[{name: f, kind: PreBackupAction, path: freeze}]`), rejected: "actions[0].path"},
		"64 actions":              {body: plugin(podExec, manyActions(64))},
		"65 actions":              {body: plugin(podExec, manyActions(65)), rejected: "must have at most 64 items"},
		"no command anywhere":     {body: plugin(`podExec: {selector: {matchLabels: {a: b}}}`, freezes), rejected: "set command in podExec or in each action"},
		"no command in one":       {body: plugin(`podExec: {selector: {matchLabels: {a: b}}}`, `[{name: a, kind: PreBackupAction, command: [x]}, {name: b, kind: PreBackupAction}]`), rejected: "set command in podExec or in each action"},
		"a command in each":       {body: plugin(`podExec: {selector: {matchLabels: {a: b}}}`, `[{name: a, kind: PreBackupAction, command: [x]}, {name: b, kind: PreBackupAction, command: [z]}]`)},
		"stray field of executor": {body: plugin(`job: {image: i, privileged: true}`, freezes)}, // pruned, as everywhere
	})
}

// manyActions returns a list of n actions, each with a long command: rules iterate over all of
// them.
func manyActions(n int) string {
	var list []string
	for i := range n {
		list = append(list, `{name: f`+strconv.Itoa(i)+`, kind: PreBackupAction, command: [`+strings.Repeat("x", 1000)+`]}`)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func TestGRPCExecutorAdmission(t *testing.T) {
	of := func(fields string) string { return `{spec: {executor: {grpc: {` + fields + `}}}}` }
	checkAdmission(t, "Plugin", map[string]admission{
		"a Service":           {body: of(`address: "mover.backup.svc:9443", tls: {caBundle: Y2E=, serverName: mover, certificateSecret: {name: s}}, connectTimeout: 5s`)},
		"the system's trust":  {body: of(`address: "mover:1", tls: {}`)},
		"IPv6":                {body: of(`address: "[fd00::1]:9443", tls: {}`)},
		"a socket":            {body: of(`address: "unix:///var/run/p.sock"`)},
		"no address":          {body: of(`tls: {}`), rejected: "address: Required value"},
		"no port":             {body: of(`address: mover, tls: {}`), rejected: "executor.grpc.address"},
		"a URL":               {body: of(`address: "https://mover:9443", tls: {}`), rejected: "executor.grpc.address"},
		"relative socket":     {body: of(`address: "unix://p.sock"`), rejected: "executor.grpc.address"},
		"two addresses":       {body: of(`address: "a:1,b:2", tls: {}`), rejected: "executor.grpc.address"},
		"in the clear":        {body: of(`address: "mover:9443"`), rejected: "set tls: parameters and objects would cross the network in the clear"},
		"TLS on a socket":     {body: of(`address: "unix:///p", tls: {}`), rejected: "tls is not for a unix socket"},
		"no base64":           {body: of(`address: "a:1", tls: {caBundle: "-----BEGIN"}`), rejected: "executor.grpc.tls.caBundle"},
		"a Secret of no name": {body: of(`address: "a:1", tls: {certificateSecret: {}}`), rejected: "certificateSecret.name: Required value"},
		"no time to connect":  {body: of(`address: "a:1", tls: {}, connectTimeout: 0s`), rejected: "must be longer than zero"},
	})
}

func TestJobExecutorAdmission(t *testing.T) {
	of := func(fields string) string { return pluginOf("job", fields) }
	limits := func(quantity string) string { return of(`image: i, resources: {limits: {memory: ` + quantity + `}}`) }
	checkAdmission(t, "Plugin", map[string]admission{
		"shortest": {body: of(`image: i`)},
		"longest": {body: of(`namespace: jobs, serviceAccountName: s, image: "r/i@sha256:0", imagePullPolicy: Always, imagePullSecrets: [{name: p}],
			command: [sh], env: [{name: A, value: b}, {name: C, secretKeyRef: {name: s, key: k}}], nodeSelector: {a: b}, startTimeout: 1m,
			resources: {limits: {memory: 64Mi, cpu: 1}, requests: {cpu: 10m}}`)},
		"no image":            {body: of(`command: [sh]`), rejected: "image: Required value"},
		"an empty image":      {body: of(`image: ""`), rejected: "executor.job.image"},
		"another namespace":   {body: of(`image: i, namespace: kube_system`), rejected: "executor.job.namespace"},
		"unknown policy":      {body: of(`image: i, imagePullPolicy: Sometimes`), rejected: `supported values: "Always", "IfNotPresent", "Never"`},
		"secret twice":        {body: of(`image: i, imagePullSecrets: [{name: p}, {name: p}]`), rejected: "Duplicate value"},
		"variable twice":      {body: of(`image: i, env: [{name: A}, {name: A}]`), rejected: "Duplicate value"},
		"variable of ours":    {body: of(`image: i, env: [{name: GRAPNEL_ATTEMPT, value: "1"}]`), rejected: "names that begin with GRAPNEL_ are Grapnel's"},
		"value and reference": {body: of(`image: i, env: [{name: A, value: b, secretKeyRef: {name: s, key: k}}]`), rejected: "set value or secretKeyRef, not both"},
		"empty and reference": {body: of(`image: i, env: [{name: A, value: "", secretKeyRef: {name: s, key: k}}]`), rejected: "set value or secretKeyRef, not both"},
		"reference of no key": {body: of(`image: i, env: [{name: A, secretKeyRef: {name: s}}]`), rejected: "secretKeyRef.key: Required value"},
		"no time to start":    {body: of(`image: i, startTimeout: 0s`), rejected: "must be longer than zero"},
		"long label":          {body: of(`image: i, nodeSelector: {a: ` + strings.Repeat("x", 64) + `}`), rejected: "Too long: may not be more than 63"},
		"too many labels":     {body: of(`image: i, nodeSelector: {` + pairs(33, "x") + `}`), rejected: "must have at most 32 items"},
		"too many resources":  {body: of(`image: i, resources: {limits: {` + pairs(9, "1") + `}}`), rejected: "must have at most 8 items"},
		"a number":            {body: limits(`1048576`)},
		"a large number":      {body: limits(`9223372036854775807`)},
		"half":                {body: limits(`"0.5"`)},
		"an exponent":         {body: limits(`"1e3"`)},
		"a long number":       {body: limits(`"` + strings.Repeat("9", 4000) + `"`)},
		"no quantity":         {body: limits(`lots`), rejected: "executor.job.resources.limits.memory"},
		// The pattern that Kubernetes generates accepts this, and no client can read it.
		"half an exponent": {body: limits(`"1e0.5"`), rejected: "must be quantities like 500m or 64Mi"},
		"huge exponent":    {body: limits(`"1e99999999999999999999"`), rejected: "must be quantities like 500m or 64Mi"},
		"half, requested":  {body: of(`image: i, resources: {requests: {cpu: "1e.5"}}`), rejected: "must be quantities like 500m or 64Mi"},
	})
}

func TestPodExecExecutorAdmission(t *testing.T) {
	of := func(fields string) string { return pluginOf("podExec", `command: [x], `+fields) }
	checkAdmission(t, "Plugin", map[string]admission{
		"shortest":         {body: of(`selector: {matchLabels: {app: db}}`)},
		"longest":          {body: of(`selector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}, container: c, target: Each, parallel: 64, whenMissing: Skip, requireAnswer: true`)},
		"no selector":      {body: of(`container: c`), rejected: "selector: Required value"},
		"unknown target":   {body: of(`selector: {matchLabels: {a: b}}, target: Some`), rejected: `supported values: "Any", "Each"`},
		"unknown missing":  {body: of(`selector: {matchLabels: {a: b}}, whenMissing: Wait`), rejected: `supported values: "Fail", "Skip"`},
		"none at a time":   {body: of(`selector: {matchLabels: {a: b}}, parallel: -1`), rejected: "should be greater than or equal to 1"},
		"too many at once": {body: of(`selector: {matchLabels: {a: b}}, parallel: 65`), rejected: "should be less than or equal to 64"},
	})
}

func TestWebhookExecutorAdmission(t *testing.T) {
	of := func(fields string) string { return pluginOf("webhook", fields) }
	url := func(url string) string { return of(`url: ` + strconv.Quote(url)) }
	checkAdmission(t, "Plugin", map[string]admission{
		"shortest":       {body: url("https://hooks.shop.svc")},
		"longest":        {body: of(`url: "https://h:8443/a", tls: {caBundle: Y2E=, serverName: h, certificateSecret: {name: s}}, tokenSecret: {name: s, key: k}, allowCIDRs: [127.0.0.0/8]`)},
		"no URL":         {body: of(`tls: {}`), rejected: "url: Required value"},
		"empty URL":      {body: url(""), rejected: "url must begin with https://"},
		"plain":          {body: url("http://a"), rejected: "url must begin with https://"},
		"another scheme": {body: url("file:///etc/passwd"), rejected: "url must begin with https://"},
		"no scheme":      {body: url("a.example/b"), rejected: "url must begin with https://"},
		"no URL at all":  {body: url("https://%zz"), rejected: "url must begin with https://"},
		"too long":       {body: url("https://" + strings.Repeat("a", 2041)), rejected: "Too long: may not be more than 2048"},
		"longest URL":    {body: url("https://" + strings.Repeat("a", 2040))},
		"bad key":        {body: of(`url: "https://a", tokenSecret: {name: s, key: "a/b"}`), rejected: "tokenSecret.key"},
		"17 networks":    {body: of(`url: "https://a", allowCIDRs: ` + repeat(17)), rejected: "must have at most 16 items"},
	})
}

func TestBuiltinExecutorAdmission(t *testing.T) {
	of := func(fields string) string { return pluginOf("builtin", `quiesce: {`+fields+`}`) }
	checkAdmission(t, "Plugin", map[string]admission{
		"shortest":       {body: of(``)},
		"longest":        {body: of(`selector: {matchLabels: {a: b}}, kinds: [Deployment, StatefulSet, ReplicaSet, DaemonSet, CronJob, Job], whenManaged: Force, maxQuiesceDuration: 1h`)},
		"no selector":    {body: of(`selector: null`)},
		"nothing":        {body: pluginOf("builtin", ``), rejected: "set quiesce or veleroHooks"},
		"hooks of pods":  {body: pluginOf("builtin", `veleroHooks: {}`)},
		"two":            {body: pluginOf("builtin", `quiesce: {}, veleroHooks: {}`), rejected: "set quiesce or veleroHooks"},
		"unknown kind":   {body: of(`kinds: [Pod]`), rejected: `Unsupported value: "Pod"`},
		"kind twice":     {body: of(`kinds: [Job, Job]`), rejected: "Duplicate value"},
		"unknown policy": {body: of(`whenManaged: Ignore`), rejected: `supported values: "Fail", "Skip", "Force"`},
		"any time":       {body: of(`maxQuiesceDuration: 0s`)},
		"before now":     {body: of(`maxQuiesceDuration: -1s`), rejected: "maxQuiesceDuration"},
	})
}

// TestExecutorDefaults checks the defaults of the optional fields of executors.
func TestExecutorDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want map[string]any
	}{
		"grpc": {pluginOf("grpc", `address: "unix:///p"`), map[string]any{"connectTimeout": "10s"}},
		"job":  {pluginOf("job", `image: i`), map[string]any{"startTimeout": "5m", "namespace": nil, "serviceAccountName": nil}},
		"podExec": {
			pluginOf("podExec", `selector: {matchLabels: {a: b}}, command: [x]`),
			map[string]any{"target": "Any", "parallel": int64(1), "whenMissing": "Fail"},
		},
		"webhook":         {pluginOf("webhook", `url: "https://a"`), map[string]any{"tls": nil, "allowCIDRs": nil}},
		"builtin.quiesce": {pluginOf("builtin", `quiesce: {}`), map[string]any{"whenManaged": "Fail", "maxQuiesceDuration": "1h", "kinds": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, "Plugin", "", tc.body)
			if err := admin.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			for field, want := range tc.want {
				if got := at(object, "spec.executor."+name+"."+field); got != want {
					t.Errorf("%s is %v, want %v", field, got, want)
				}
			}
			if plugin := typed(t, object).(*v1alpha1.Plugin); len(plugin.Spec.Actions) != 1 {
				t.Errorf("the actions are %+v", plugin.Spec.Actions)
			}
		})
	}
}

// TestExecutorDurations checks that durations of executors follow the rules of all durations: one
// that the operator cannot parse stops the watch of all Plugins.
func TestExecutorDurations(t *testing.T) {
	for field, body := range map[string]string{
		"grpc.connectTimeout":                pluginOf("grpc", `address: "unix:///p", connectTimeout: %s`),
		"job.startTimeout":                   pluginOf("job", `image: i, startTimeout: %s`),
		"builtin.quiesce.maxQuiesceDuration": pluginOf("builtin", `quiesce: {maxQuiesceDuration: %s}`),
	} {
		for _, value := range []string{"1ms", "1h30m", "99999h99999h99999h99999h99999h"} {
			object := parse(t, "Plugin", "", fmt.Sprintf(body, strconv.Quote(value)))
			if err := admin.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("%s %q: want it to be accepted, got: %v", field, value, err)
				continue
			}
			typed(t, object)
		}
		for _, value := range []string{"", "1d", "10", "-1h", "1h ", "9999999h", "1µs"} {
			object := parse(t, "Plugin", "", fmt.Sprintf(body, strconv.Quote(value)))
			if err := admin.Create(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "spec.executor."+field) {
				t.Errorf("%s %q: want it to be rejected with the name of the field, got: %v", field, value, err)
			}
		}
	}
}
