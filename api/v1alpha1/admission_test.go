// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admission is an object and the expected answer of the API server. No text means that it
// accepts the object.
type admission struct {
	body, rejected string
}

func checkAdmission(t *testing.T, kind string, table map[string]admission) {
	t.Helper()
	namespace := newNamespace(t)
	current, err := plane.IsAtLeast("1.36")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			object := parse(t, kind, namespace, tc.body)
			err := admin.Create(t.Context(), object, client.DryRunAll)
			if !current {
				tc.rejected = messageOfOldest(tc.rejected)
			}
			wantMessage(t, err, tc.rejected)
			if err == nil {
				typed(t, object)
			}
		})
	}
}

var tooLong = regexp.MustCompile(`may not be more than (\d+)( bytes)?`)

// messageOfOldest returns a message in the words of Kubernetes 1.30.
func messageOfOldest(message string) string {
	message = strings.Replace(message, "Duplicate value: {", "Duplicate value: map[string]interface {}{", 1)
	return tooLong.ReplaceAllString(message, "may not be longer than $1")
}

// repeat returns a YAML list of n different names.
func repeat(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	return "[" + strings.Join(names, ",") + "]"
}

// pairs returns the content of a YAML map with n different keys.
func pairs(n int, value string) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("k%d: %s", i, value))
	}
	return strings.Join(entries, ", ")
}

func TestBackupAdmission(t *testing.T) {
	long := strings.Repeat("n", 254)
	checkAdmission(t, "Backup", map[string]admission{
		"nothing at all":      {},
		"an empty spec":       {body: `{spec: {}}`},
		"a typical one":       {body: `{spec: {includedNamespaces: [shop, "shop-*"], excludedResources: [events], ttl: 720h}}`},
		"nulls":               {body: `{spec: {includeClusterResources: null, labelSelector: null, orLabelSelectors: null, orderedResources: null}}`},
		"scoped lists":        {body: `{spec: {includedClusterScopedResources: ["*"], excludedNamespaceScopedResources: [secrets]}}`},
		"longest name":        {body: `{metadata: {name: ` + strings.Repeat("b", 200) + `}}`},
		"name too long":       {body: `{metadata: {name: ` + strings.Repeat("b", 201) + `}}`, rejected: "metadata.name must have at most 200 characters, because file names are derived from it"},
		"unknown state":       {body: `{spec: {desiredState: Stop}}`, rejected: `spec.desiredState: Unsupported value: "Stop": supported values: "Run", "Cancel"`},
		"unknown policy":      {body: `{spec: {deletionPolicy: Keep}}`, rejected: `spec.deletionPolicy: Unsupported value: "Keep": supported values: "Retain", "Delete"`},
		"created as canceled": {body: `{spec: {desiredState: Cancel}}`},
		"both selectors":      {body: `{spec: {labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {c: d}}]}}`, rejected: "labelSelector and orLabelSelectors exclude each other; set one of them"},
		"one or-selector":     {body: `{spec: {labelSelector: {matchLabels: {a: b}}, orLabelSelectors: []}}`},
		"null selector":       {body: `{spec: {labelSelector: null, orLabelSelectors: [{matchLabels: {c: d}}]}}`},
		"empty pattern":       {body: `{spec: {includedNamespaces: [""]}}`, rejected: "spec.includedNamespaces[0]"},
		"long pattern":        {body: `{spec: {includedResources: [` + long + `]}}`, rejected: "spec.includedResources[0]: Too long: may not be more than 253 bytes"},
		"a text, no list":     {body: `{spec: {includedNamespaces: shop}}`, rejected: "spec.includedNamespaces in body must be of type array"},

		"as many namespaces as can be": {body: `{spec: {includedNamespaces: ` + repeat(2048) + `}}`},
		"too many namespaces":          {body: `{spec: {includedNamespaces: ` + repeat(2049) + `}}`, rejected: "spec.includedNamespaces: Too many: 2049: must have at most 2048 items"},
		"too many resources":           {body: `{spec: {excludedClusterScopedResources: ` + repeat(513) + `}}`, rejected: "must have at most 512 items"},
		"too many selectors":           {body: `{spec: {orLabelSelectors: [` + strings.Repeat("{},", 33) + `]}}`, rejected: "must have at most 32 items"},
		"too many ordered resources":   {body: `{spec: {orderedResources: {` + pairs(65, "a/b") + `}}}`, rejected: "spec.orderedResources: Too many: 65"},
		"too many parameters":          {body: `{spec: {parameters: {example.io/freeze: {` + pairs(65, "v") + `}}}}`, rejected: "Too many: 65"},
		"a parameter too long":         {body: `{spec: {parameters: {p: {k: ` + strings.Repeat("v", 4097) + `}}}}`, rejected: "spec.parameters.p.k: Too long"},
		"a parameter that is a number": {body: `{spec: {parameters: {p: {replicas: 3}}}}`, rejected: "spec.parameters.p.replicas in body must be of type string"},
		"null in a list":               {body: `{spec: {includedNamespaces: [null]}}`, rejected: "spec.includedNamespaces[0]"},
		"null for a selector":          {body: `{spec: {orLabelSelectors: [null]}}`, rejected: "spec.orLabelSelectors[0]"},
		"null for a parameter":         {body: `{spec: {parameters: {p: {k: null}}}}`},
		"null for parameters":          {body: `{spec: {parameters: {p: null}}}`},
		"null for ordered names":       {body: `{spec: {orderedResources: {pods: null}}}`},
		"null for a duration":          {body: `{spec: {ttl: null}}`},
		"no time for operations":       {body: `{spec: {itemOperationTimeout: 0s}}`, rejected: "must be longer than zero; omit it for the default"},
		"no time for the archive":      {body: `{spec: {timeouts: {archive: 0s}}}`, rejected: "must be longer than zero; omit it for the default"},
		"no time for the run":          {body: `{spec: {timeouts: {run: 0s}}}`, rejected: "must be longer than zero; omit it for the default"},
		"a year for operations":        {body: `{spec: {itemOperationTimeout: 8760h}}`},
		"imported without a location":  {body: `{spec: {importedFrom: {}}}`, rejected: "spec.importedFrom.storageLocation: Required value"},
		"imported with a strange UID":  {body: `{spec: {importedFrom: {storageLocation: main, backupUID: "u 1"}}}`, rejected: "spec.importedFrom.backupUID"},
	})
}

func TestRestoreAdmission(t *testing.T) {
	const choose = "set exactly one of backupName and scheduleName"
	of := func(fields string) string { return `{spec: {backupName: b, ` + fields + `}}` }
	checkAdmission(t, "Restore", map[string]admission{
		"of a backup":         {body: `{spec: {backupName: shop}}`},
		"of a schedule":       {body: `{spec: {scheduleName: nightly}}`},
		"no spec":             {rejected: "spec: Required value"},
		"an empty spec":       {body: `{spec: {}}`, rejected: choose},
		"of both":             {body: `{spec: {backupName: shop, scheduleName: nightly}}`, rejected: choose},
		"an empty name":       {body: `{spec: {backupName: "", scheduleName: nightly}}`, rejected: "spec.backupName"},
		"a name too long":     {body: `{spec: {backupName: ` + strings.Repeat("n", 254) + `}}`, rejected: "spec.backupName: Too long"},
		"mapped":              {body: of(`includedNamespaces: [shop], namespaceMapping: {shop: shop-2}, existingResourcePolicy: update`)},
		"taking over":         {body: of(`takeOver: true`)},
		"dry":                 {body: of(`dryRun: true, existingResourcePolicy: recreate`)},
		"nulls":               {body: of(`includeClusterResources: null, labelSelector: null, orLabelSelectors: null, preserveNodePorts: null`)},
		"status of all":       {body: of(`restoreStatus: {includedResources: ["*"], excludedResources: [pods]}`)},
		"versions":            {body: of(`apiVersionPriorities: "deployments.apps=v1,v1beta1\n"`)},
		"modified":            {body: of(`resourceModifier: {name: rules}`)},
		"modified, of Velero": {body: of(`resourceModifier: {kind: configmap, name: rules}`)},
		"modified by nothing": {body: of(`resourceModifier: {}`), rejected: "spec.resourceModifier.name: Required value"},
		"modified by another": {body: of(`resourceModifier: {kind: Secret, name: rules}`), rejected: `spec.resourceModifier.kind: Unsupported value: "Secret"`},
		"modified by a path":  {body: of(`resourceModifier: {name: ../rules}`), rejected: "spec.resourceModifier.name"},
		"created as canceled": {body: of(`desiredState: Cancel`)},
		"unknown state":       {body: of(`desiredState: Stop`), rejected: `spec.desiredState: Unsupported value: "Stop": supported values: "Run", "Cancel"`},
		"unknown policy":      {body: of(`existingResourcePolicy: replace`), rejected: `spec.existingResourcePolicy: Unsupported value: "replace": supported values: "none", "update", "recreate"`},
		"no policy":           {body: of(`existingResourcePolicy: ""`), rejected: "spec.existingResourcePolicy"},
		"both selectors":      {body: of(`labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {c: d}}]`), rejected: "labelSelector and orLabelSelectors exclude each other; set one of them"},
		"one or-selector":     {body: of(`labelSelector: {matchLabels: {a: b}}, orLabelSelectors: []`)},
		"empty pattern":       {body: of(`includedNamespaces: [""]`), rejected: "spec.includedNamespaces[0]"},
		"mapped to nothing":   {body: of(`namespaceMapping: {shop: ""}`), rejected: "spec.namespaceMapping.shop"},
		"mapped too far":      {body: of(`namespaceMapping: {shop: ` + strings.Repeat("n", 64) + `}`), rejected: "spec.namespaceMapping.shop: Too long: may not be more than 63 bytes"},
		"dry, as a text":      {body: of(`dryRun: "yes"`), rejected: "spec.dryRun in body must be of type boolean"},

		"as many mappings as can be":     {body: of(`namespaceMapping: {` + pairs(1024, "other") + `}`)},
		"too many mappings":              {body: of(`namespaceMapping: {` + pairs(1025, "other") + `}`), rejected: "spec.namespaceMapping: Too many: 1025"},
		"as many namespaces as can be":   {body: of(`includedNamespaces: ` + repeat(2048))},
		"too many namespaces":            {body: of(`excludedNamespaces: ` + repeat(2049)), rejected: "spec.excludedNamespaces: Too many: 2049: must have at most 2048 items"},
		"too many resources":             {body: of(`includedResources: ` + repeat(513)), rejected: "must have at most 512 items"},
		"too many resources with status": {body: of(`restoreStatus: {includedResources: ` + repeat(513) + `}`), rejected: "spec.restoreStatus.includedResources: Too many: 513"},
		"too many selectors":             {body: of(`orLabelSelectors: [` + strings.Repeat("{},", 33) + `]`), rejected: "must have at most 32 items"},
		"too many parameters":            {body: of(`parameters: {p: {` + pairs(65, "v") + `}}`), rejected: "Too many: 65"},
		"versions without an end":        {body: of(`apiVersionPriorities: ` + strings.Repeat("v", 65537)), rejected: "spec.apiVersionPriorities: Too long"},
	})
}

func TestBackupStorageLocationAdmission(t *testing.T) {
	const choose = "set exactly one of filesystem, s3 and plugin"
	plugin := func(fields string) string { return `{spec: {plugin: {` + fields + `}}}` }
	checkAdmission(t, "BackupStorageLocation", map[string]admission{
		"filesystem":       {body: `{spec: {filesystem: {}}}`},
		"directory":        {body: `{spec: {filesystem: {path: team-a/backups}, prefix: cluster_1/x, default: true}}`},
		"s3":               {body: `{spec: {s3: {bucket: backups, region: eu-central-1, credentialsSecret: {name: s3}}}}`},
		"s3 elsewhere":     {body: `{spec: {s3: {bucket: backups, endpoint: "https://s3.example.com:9000", forcePathStyle: true, caCert: LS0tLS0K}}}`},
		"s3 profile":       {body: `{spec: {s3: {bucket: backups, credentialsSecret: {name: cloud-credentials}, profile: "team@a/1"}}}`},
		"profile of none":  {body: `{spec: {s3: {bucket: backups, profile: berlin}}}`, rejected: "profile needs a credentialsSecret"},
		"odd profile":      {body: `{spec: {s3: {bucket: backups, credentialsSecret: {name: a}, profile: "a]\n[b"}}}`, rejected: "spec.s3.profile"},
		"s3 options":       {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {algorithm: "aws:kms", kmsKeyID: alias/backups}, checksumAlgorithm: CRC32C, insecureSkipTLSVerify: true}}}`},
		"AES256":           {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {algorithm: AES256}, checksumAlgorithm: None, caCert: LS0tLS0K, insecureSkipTLSVerify: false}}}`},
		"no algorithm":     {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {kmsKeyID: alias/backups}}}}`, rejected: "serverSideEncryption.algorithm: Required value"},
		"key of AES256":    {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {algorithm: AES256, kmsKeyID: alias/backups}}}}`, rejected: "kmsKeyID needs the algorithm aws:kms"},
		"odd key":          {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {algorithm: "aws:kms", kmsKeyID: "a\r\nb: c"}}}}`, rejected: "kmsKeyID"},
		"odd encryption":   {body: `{spec: {s3: {bucket: backups, serverSideEncryption: {algorithm: DES}}}}`, rejected: `supported values: "AES256", "aws:kms"`},
		"odd checksum":     {body: `{spec: {s3: {bucket: backups, checksumAlgorithm: CRC64}}}`, rejected: "spec.s3.checksumAlgorithm"},
		"CA for nothing":   {body: `{spec: {s3: {bucket: backups, caCert: LS0tLS0K, insecureSkipTLSVerify: true}}}`, rejected: "caCert has no effect with insecureSkipTLSVerify"},
		"read-only":        {body: `{spec: {filesystem: {}, accessMode: ReadOnly}}`},
		"a budget":         {body: `{spec: {filesystem: {}, sync: {maxBackups: 50, disabled: false}}}`},
		"no budget at all": {body: `{spec: {filesystem: {}, sync: {maxBackups: 0}}}`, rejected: "spec.sync.maxBackups"},
		"a huge budget":    {body: `{spec: {filesystem: {}, sync: {maxBackups: 100001}}}`, rejected: "spec.sync.maxBackups"},
		"own intervals":    {body: `{spec: {filesystem: {}, checkInterval: 1h30m, sync: {interval: 720h}}}`},
		"no checks":        {body: `{spec: {filesystem: {}, checkInterval: 0s, sync: {interval: 0m}}}`},
		"hasty checks":     {body: `{spec: {filesystem: {}, checkInterval: 999ms}}`, rejected: "must be 0s, or from 1s to 720h"},
		"rare checks":      {body: `{spec: {filesystem: {}, checkInterval: 721h}}`, rejected: "must be 0s, or from 1s to 720h"},
		"no duration":      {body: `{spec: {filesystem: {}, checkInterval: daily}}`, rejected: "spec.checkInterval"},
		"hasty syncs":      {body: `{spec: {filesystem: {}, sync: {interval: 0.5s}}}`, rejected: "must be 0s, or from 1s to 720h"},
		"negative syncs":   {body: `{spec: {filesystem: {}, sync: {interval: -1m}}}`, rejected: "spec.sync.interval"},
		"no spec":          {rejected: "spec: Required value"},
		"no provider":      {body: `{spec: {default: true}}`, rejected: choose},
		"two providers":    {body: `{spec: {filesystem: {}, s3: {bucket: backups}}}`, rejected: choose},
		"no bucket":        {body: `{spec: {s3: {}}}`, rejected: "spec.s3.bucket: Required value"},
		"short bucket":     {body: `{spec: {s3: {bucket: b}}}`, rejected: "spec.s3.bucket"},
		"absolute path":    {body: `{spec: {filesystem: {path: /etc}}}`, rejected: "spec.filesystem.path"},
		"path that leaves": {body: `{spec: {filesystem: {path: a/../../etc}}}`, rejected: `may not be "." or ".."`},
		"dots":             {body: `{spec: {filesystem: {path: ".."}}}`, rejected: `may not be "." or ".."`},
		"dot in the name":  {body: `{spec: {filesystem: {path: .hidden/a..b}}}`},
		"leaving prefix":   {body: `{spec: {filesystem: {}, prefix: ../other}}`, rejected: `may not be "." or ".."`},
		"trailing slash":   {body: `{spec: {filesystem: {}, prefix: a/}}`, rejected: "spec.prefix"},
		"no URL":           {body: `{spec: {s3: {bucket: backups, endpoint: s3.example.com}}}`, rejected: "spec.s3.endpoint"},
		"secret in URL":    {body: `{spec: {s3: {bucket: backups, endpoint: "https://me:secret@s3.example.com"}}}`, rejected: "spec.s3.endpoint"},
		"path in URL":      {body: `{spec: {s3: {bucket: backups, endpoint: "https://s3.example.com/backups"}}}`, rejected: "spec.s3.endpoint"},
		"unknown mode":     {body: `{spec: {filesystem: {}, accessMode: None}}`, rejected: `supported values: "ReadWrite", "ReadOnly"`},
		"nameless secret":  {body: `{spec: {s3: {bucket: backups, credentialsSecret: {}}}}`, rejected: "credentialsSecret.name: Required value"},
		"PEM, not base64":  {body: `{spec: {s3: {bucket: backups, caCert: "-----BEGIN CERTIFICATE-----"}}}`, rejected: "spec.s3.caCert"},
		"base64 of a URL":  {body: `{spec: {s3: {bucket: backups, caCert: "-_-_"}}}`, rejected: "spec.s3.caCert"},
		"base64, cut":      {body: `{spec: {s3: {bucket: backups, caCert: "YWI"}}}`, rejected: "spec.s3.caCert"},

		"plugin":                {body: plugin(`provider: velero.io/aws, bucket: backups`)},
		"plugin, everything":    {body: plugin(`provider: example.io/directory, bucket: My_Container, config: {region: "", s3ForcePathStyle: "true"}, caCert: LS0tLS0K, credential: {name: cloud, key: credentials.ini}`)},
		"plugin beside s3":      {body: `{spec: {s3: {bucket: backups}, plugin: {provider: velero.io/aws, bucket: backups}}}`, rejected: choose},
		"no provider's name":    {body: plugin(`bucket: backups`), rejected: "spec.plugin.provider: Required value"},
		"odd provider":          {body: plugin(`provider: a/b/c, bucket: backups`), rejected: "spec.plugin.provider"},
		"plugin without bucket": {body: plugin(`provider: velero.io/aws`), rejected: "spec.plugin.bucket: Required value"},
		"prefix in the bucket":  {body: plugin(`provider: velero.io/aws, bucket: backups/a`), rejected: "spec.plugin.bucket"},
		"bucket in the config":  {body: plugin(`provider: velero.io/aws, bucket: backups, config: {bucket: other}`), rejected: "are set by Grapnel"},
		"prefix in the config":  {body: plugin(`provider: velero.io/aws, bucket: backups, config: {prefix: other}`), rejected: "are set by Grapnel"},
		"file in the config":    {body: plugin(`provider: velero.io/aws, bucket: backups, config: {credentialsFile: /etc/shadow}`), rejected: "are set by Grapnel"},
		"CA in the config":      {body: plugin(`provider: velero.io/aws, bucket: backups, config: {caCert: x}`), rejected: "are set by Grapnel"},
		"odd key in the config": {body: plugin(`provider: velero.io/aws, bucket: backups, config: {"a b": x}`), rejected: "a key consists of at most 128 letters, digits"},
		"number in the config":  {body: plugin(`provider: velero.io/aws, bucket: backups, config: {retries: 3}`), rejected: "spec.plugin.config.retries"},
		"credential of no key":  {body: plugin(`provider: velero.io/aws, bucket: backups, credential: {name: cloud}`), rejected: "credential.key: Required value"},
		"credential elsewhere":  {body: plugin(`provider: velero.io/aws, bucket: backups, credential: {name: cloud, key: ../x}`), rejected: "spec.plugin.credential.key"},
	})
}

func TestPluginAdmission(t *testing.T) {
	process := func(fields string) string { return `{spec: {executor: {process: {` + fields + `}}}}` }
	actions := func(list string) string {
		return `{spec: {executor: {process: {command: p}}, actions: [` + list + `]}}`
	}
	checkAdmission(t, "Plugin", map[string]admission{
		"shortest":              {body: process(`command: freeze`)},
		"in a directory":        {body: process(`command: vendor/v1.2/freeze_x, args: [--verbose, ""], env: [{name: A, value: ""}]`)},
		"no spec":               {rejected: "spec: Required value"},
		"no executor":           {body: `{spec: {}}`, rejected: "spec.executor: Required value"},
		"empty executor":        {body: `{spec: {executor: {}}}`, rejected: "set exactly one executor: process"},
		"unknown executor":      {body: `{spec: {executor: {shell: {command: rm}}}}`, rejected: "set exactly one executor: process"},
		"no command":            {body: process(``), rejected: "command: Required value"},
		"absolute command":      {body: process(`command: /bin/sh`), rejected: "executor.process.command"},
		"leaving the directory": {body: process(`command: a/../../bin/sh`), rejected: "executor.process.command"},
		"hidden command":        {body: process(`command: .freeze`), rejected: "executor.process.command"},
		"a command line":        {body: process(`command: freeze --all`), rejected: "executor.process.command"},
		"too many arguments":    {body: process(`command: p, args: ` + repeat(65)), rejected: "must have at most 64 items"},
		"variable twice":        {body: process(`command: p, env: [{name: A}, {name: A}]`), rejected: `Duplicate value: {"name":"A"}`},
		"bad variable":          {body: process(`command: p, env: [{name: A=B}]`), rejected: "env[0].name"},
		"an action":             {body: actions(`{name: example.io/freeze, kind: PreBackupAction, order: -5, timeout: 30s, retries: 10, selector: {matchLabels: {a: b}}}`)},
		"both halves":           {body: actions(`{name: f, kind: PreBackupAction}, {name: f, kind: PostBackupAction, runOn: [Failed, Cancelled]}`)},
		"an action twice":       {body: actions(`{name: f, kind: PreBackupAction}, {name: f, kind: PreBackupAction}`), rejected: "Duplicate value"},
		"unknown kind":          {body: actions(`{name: f, kind: Before}`), rejected: `Unsupported value: "Before": supported values: "PreBackupAction"`},
		"no kind":               {body: actions(`{name: f}`), rejected: "kind: Required value"},
		"too many retries":      {body: actions(`{name: f, kind: PreBackupAction, retries: 11}`), rejected: "should be less than or equal to 10"},
		"negative retries":      {body: actions(`{name: f, kind: PreBackupAction, retries: -1}`), rejected: "should be greater than or equal to 0"},
		"order too large":       {body: actions(`{name: f, kind: PreBackupAction, order: 3000000000}`), rejected: "should be less than or equal to 1000000"},
		"half an order":         {body: actions(`{name: f, kind: PreBackupAction, order: 1.5}`), rejected: "must be of type integer"},
		"retried deletion":      {body: actions(`{name: f, kind: DeleteAction, retries: 5, onInterruption: Fail}`)},
		"retried item action":   {body: actions(`{name: f, kind: DeleteItemAction, retries: 5}`), rejected: "and for DeleteActions"},
		"order of deletion":     {body: actions(`{name: f, kind: DeleteAction, order: 1}`), rejected: "order is not for DeleteActions: they run in the alphanumeric order of their names"},
		"no order of deletion":  {body: actions(`{name: f, kind: DeleteAction, order: 0}`)},
		"order of item action":  {body: actions(`{name: f, kind: DeleteItemAction, order: 1}`)},
		"after captured data":   {body: actions(`{name: f, kind: PreBackupAction}, {name: f, kind: PostBackupAction, runAfter: DataCaptured}`)},
		"captured and restored": {body: actions(`{name: f, kind: PostRestoreAction, runAfter: DataCaptured}`), rejected: "runAfter is for PostBackupActions"},
		"captured with outcome": {body: actions(`{name: f, kind: PostBackupAction, runAfter: DataCaptured, runOn: [Failed]}`), rejected: "runOn needs the outcome"},
		"unknown time":          {body: actions(`{name: f, kind: PostBackupAction, runAfter: Later}`), rejected: `Unsupported value: "Later"`},
		"outcome of deletion":   {body: actions(`{name: f, kind: DeleteAction, runOn: [Failed]}`), rejected: "runOn is for actions that run before or after"},
		"outcome twice":         {body: actions(`{name: f, kind: PostBackupAction, runOn: [Failed, Failed]}`), rejected: "Duplicate value"},
		"unknown outcome":       {body: actions(`{name: f, kind: PostBackupAction, runOn: [Always]}`), rejected: `Unsupported value: "Always"`},
		"unknown policy":        {body: `{spec: {executor: {process: {command: p}}, failurePolicy: Warn}}`, rejected: `supported values: "Fail", "Ignore"`},
		"no time at all":        {body: actions(`{name: f, kind: PreBackupAction, timeout: 0s}`), rejected: "must be longer than zero"},
		"an operation":          {body: actions(`{name: f, kind: AsyncBackupItemAction, operation: {timeout: 8760h, stallTimeout: 10m, pollInterval: 1s}}`)},
		"no operation":          {body: actions(`{name: f, kind: PreBackupAction, operation: {timeout: 1h}}`), rejected: "operation is for actions that may start operations on objects"},
		"operation in no time":  {body: actions(`{name: f, kind: AsyncBackupItemAction, operation: {timeout: 0s}}`), rejected: "must be longer than zero"},
		"no time to start":      {body: process(`command: p, startTimeout: 0s`), rejected: "must be longer than zero"},
	})
}

const hookRun = `hook: PreBackup, actionName: example.io/freeze, pluginRef: {name: example},
	parentRef: {kind: Backup, name: b, uid: u}, failurePolicy: Fail, onInterruption: Retry`

func TestHookRunAdmission(t *testing.T) {
	with := func(fields string) string { return `{spec: {` + hookRun + `, ` + fields + `}}` }
	checkAdmission(t, "HookRun", map[string]admission{
		"as planned":       {body: with(`timeout: 10m, desiredState: Wait`)},
		"with everything":  {body: with(`timeout: 1h30m, desiredState: Wait, order: -5, retries: 3, owed: true, runOn: [Failed], parameters: {a: b}`)},
		"no spec":          {rejected: "spec: Required value"},
		"no timeout":       {body: with(`desiredState: Wait`), rejected: "spec.timeout: Required value"},
		"no time at all":   {body: with(`timeout: 0m, desiredState: Wait`), rejected: "must be longer than zero"},
		"no state":         {body: with(`timeout: 10m`), rejected: "spec.desiredState: Required value"},
		"unknown state":    {body: with(`timeout: 10m, desiredState: Stop`), rejected: `supported values: "Wait", "Run", "Cancel"`},
		"unknown point":    {body: `{spec: {hook: Before, timeout: 10m, desiredState: Wait}}`, rejected: `Unsupported value: "Before": supported values: "PreBackup"`},
		"unknown parent":   {body: `{spec: {parentRef: {kind: Pod, name: p, uid: u}, timeout: 10m, desiredState: Wait}}`, rejected: `Unsupported value: "Pod": supported values: "Backup", "Restore"`},
		"no parent's UID":  {body: `{spec: {parentRef: {kind: Backup, name: b}, timeout: 10m, desiredState: Wait}}`, rejected: "spec.parentRef.uid: Required value"},
		"nameless plugin":  {body: `{spec: {pluginRef: {name: ""}, timeout: 10m, desiredState: Wait}}`, rejected: "spec.pluginRef.name"},
		"too many retries": {body: with(`timeout: 10m, desiredState: Wait, retries: 11`), rejected: "spec.retries"},
		"an intervention":  {body: with(`timeout: 10m, desiredState: Wait, intervention: {id: a.b-1, type: Skip, user: jane, reason: not needed}`)},
		"what to do":       {body: with(`timeout: 10m, desiredState: Wait, intervention: {id: a, type: Stop, user: jane, reason: x}`), rejected: `supported values: "Retry", "Skip"`},
		"no id":            {body: with(`timeout: 10m, desiredState: Wait, intervention: {type: Skip, user: jane, reason: x}`), rejected: "spec.intervention.id: Required value"},
		"an odd id":        {body: with(`timeout: 10m, desiredState: Wait, intervention: {id: "a b", type: Skip, user: jane, reason: x}`), rejected: "spec.intervention.id"},
		"no user":          {body: with(`timeout: 10m, desiredState: Wait, intervention: {id: a, type: Skip, reason: x}`), rejected: "spec.intervention.user: Required value"},
		"no reason":        {body: with(`timeout: 10m, desiredState: Wait, intervention: {id: a, type: Skip, user: jane, reason: ""}`), rejected: "spec.intervention.reason"},
		"too long a reason": {
			body:     with(`timeout: 10m, desiredState: Wait, intervention: {id: a, type: Skip, user: jane, reason: "` + strings.Repeat("x", 257) + `"}`),
			rejected: "spec.intervention.reason",
		},
	})
}

const operation = `parentRef: {kind: Backup, name: b, uid: u}, kind: AsyncBackupItemAction, actionName: example.io/copy,
	pluginRef: {name: example}, operationID: op-1, item: {resource: persistentvolumeclaims, namespace: shop, name: data}, attempt: 1`

func TestAsyncOperationAdmission(t *testing.T) {
	with := func(fields string) string { return `{spec: {` + operation + `, ` + fields + `}}` }
	times := `timeout: 4h, pollInterval: 10s`
	checkAdmission(t, "AsyncOperation", map[string]admission{
		"as recorded":             {body: with(times)},
		"with everything":         {body: with(times + `, stallTimeout: 10m, postOperationItems: [{group: example.io, resource: moves, name: m}]`)},
		"a year":                  {body: with(`timeout: 8760h, pollInterval: 10s`)},
		"no spec":                 {rejected: "spec: Required value"},
		"no time at all":          {body: with(`timeout: 0s, pollInterval: 10s`), rejected: "must be longer than zero"},
		"no time to stall":        {body: with(times + `, stallTimeout: 0s`), rejected: "must be longer than zero"},
		"asked all the time":      {body: with(`timeout: 4h, pollInterval: 99ms`), rejected: "must be at least 100ms"},
		"an attempt before all":   {body: `{spec: {attempt: 0, ` + times + `}}`, rejected: "spec.attempt"},
		"an ID of 1025 bytes":     {body: `{spec: {operationID: ` + strings.Repeat("i", 1025) + `, ` + times + `}}`, rejected: "spec.operationID: Too long"},
		"no ID":                   {body: `{spec: {operationID: "", ` + times + `}}`, rejected: "spec.operationID"},
		"a kind of hook":          {body: `{spec: {kind: Hook, ` + times + `}}`, rejected: `Unsupported value: "Hook"`},
		"as many items as can be": {body: with(times + `, postOperationItems: [` + strings.Repeat("{resource: pods, name: p},", 1000) + `]`)},
		"too many items":          {body: with(times + `, postOperationItems: [` + strings.Repeat("{resource: pods, name: p},", 1001) + `]`), rejected: "must have at most 1000 items"},
	})
}

// TestDurationAdmission writes every kind of duration into every field that takes one.
// The schema must accept only what the operator can read: one object with an
// unreadable duration would hide all others of its kind.
func TestDurationAdmission(t *testing.T) {
	bodies := map[string]string{
		"Backup spec.ttl":                           `{spec: {ttl: %s}}`,
		"DeletionRun spec.ttl":                      `{spec: {backupName: b, ttl: %s}}`,
		"Backup spec.itemOperationTimeout":          `{spec: {itemOperationTimeout: %s}}`,
		"Restore spec.itemOperationTimeout":         `{spec: {backupName: b, itemOperationTimeout: %s}}`,
		"Backup spec.timeouts.archive":              `{spec: {timeouts: {archive: %s}}}`,
		"Backup spec.timeouts.run":                  `{spec: {timeouts: {run: %s}}}`,
		"Restore spec.timeouts.restore":             `{spec: {backupName: b, timeouts: {restore: %s}}}`,
		"Restore spec.timeouts.run":                 `{spec: {backupName: b, timeouts: {run: %s}}}`,
		"HookRun spec.timeout":                      `{spec: {` + hookRun + `, desiredState: Wait, timeout: %s}}`,
		"AsyncOperation spec.timeout":               `{spec: {` + operation + `, pollInterval: 1s, timeout: %s}}`,
		"AsyncOperation spec.stallTimeout":          `{spec: {` + operation + `, pollInterval: 1s, timeout: 1h, stallTimeout: %s}}`,
		"Plugin spec.actions[0].timeout":            `{spec: {executor: {process: {command: p}}, actions: [{name: a, kind: PreBackupAction, timeout: %s}]}}`,
		"Plugin spec.executor.process.startTimeout": `{spec: {executor: {process: {command: p, startTimeout: %s}}}}`,
	}
	good := []string{"1ms", "30s", "10m", "720h", "1h30m", "1.5h", "0h1s", "99999h99999h99999h99999h99999h", "1m1m"}
	bad := []string{
		"", "1d", "10", "-1h", "+1h", "1h 30m", " 1h", "1h\n", "1e3s", ".5h", "1.h", "1us", "1µs", "٣h",
		"infinity", "9999999h", "1h" + strings.Repeat("0h", 16),
	}
	namespace := newNamespace(t)
	for place, body := range bodies {
		kind, field, _ := strings.Cut(place, " ")
		try := func(value string) error {
			object := parse(t, kind, namespace, fmt.Sprintf(body, strconv.Quote(value)))
			err := admin.Create(t.Context(), object, client.DryRunAll)
			if err == nil {
				typed(t, object)
			}
			return err
		}
		t.Run(place, func(t *testing.T) {
			for _, value := range good {
				if err := try(value); err != nil {
					t.Errorf("%q: want it to be accepted, got: %v", value, err)
				}
			}
			for _, value := range bad {
				if err := try(value); err == nil || !strings.Contains(err.Error(), field) {
					t.Errorf("%q: want it to be rejected with the name of the field, got: %v", value, err)
				}
			}
		})
	}
}
