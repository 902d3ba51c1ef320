// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	providerAWS = "velero.io/aws"

	storageField = "spec.objectStorage"
	configField  = "spec.config"
	profileField = configField + ".profile"

	encryptionField = configField + ".serverSideEncryption"
	kmsKeyField     = configField + ".kmsKeyId"
	skipVerifyField = configField + ".insecureSkipTLSVerify"
)

var (
	prefixPattern   = regexp.MustCompile(`^([a-zA-Z0-9_.-]+(/[a-zA-Z0-9_.-]+)*)?$`)
	profilePattern  = regexp.MustCompile(`^[a-zA-Z0-9_.@+=,:/-]{0,128}$`)
	kmsKeyPattern   = regexp.MustCompile(`^[a-zA-Z0-9:/_.-]{0,512}$`)
	endpointPattern = regexp.MustCompile(`^(https?://[^/@?#]+/?)?$`)
)

// convertLocation converts a BackupStorageLocation: one on AWS or a compatible service to s3, if s3 can do the same, and
// others to the object store of a Plugin.
func (m *migration) convertLocation(l *ledger, object *unstructured.Unstructured) error {
	if _, _, err := unstructured.NestedStringMap(l.source, "spec", "config"); err != nil {
		return errors.New("spec.config has a value that is not a string")
	}
	provider := l.fieldText("spec.provider")
	if provider == "" {
		return &refusal{"it has no spec.provider"}
	}
	if !strings.Contains(provider, "/") {
		provider = "velero.io/" + provider // as Velero completes it
	}
	if err := l.convertPlace(); err != nil {
		return err
	}
	target, missing := "spec.s3", l.listPluginSettings()
	if provider != providerAWS || len(missing) > 0 {
		target = "spec.plugin"
	}
	var err error
	switch {
	case target == "spec.s3":
		l.decideField("spec.provider", OutcomeChanged, "the built-in provider s3 needs no Plugin")
		err = l.convertAWSConfig()
	case provider == providerAWS:
		note := fmt.Sprintf("s3 does not have %s; create a Plugin that provides %s: docs/spec/backupstoragelocation.md#object-stores-of-plugins",
			strings.Join(missing, ", "), provider)
		err = errors.Join(l.changeField("spec.provider", target+".provider", provider, note), l.convertPluginConfig())
	default:
		note := fmt.Sprintf("create a Plugin that provides %s: docs/spec/backupstoragelocation.md#object-stores-of-plugins", provider)
		err = errors.Join(l.changeField("spec.provider", target+".provider", provider, note), l.convertPluginConfig())
	}
	if err != nil {
		return err
	}
	return errors.Join(
		l.convertBucket(target),
		m.convertCertificates(l, object, target),
		m.convertCredential(l, object, target),
		l.keepField("spec.default", "spec.default"),
		l.keepField("spec.accessMode", "spec.accessMode"),
		l.convertIntervals(),
	)
}

// convertPlace converts the prefix. With another one, the location would have other backups.
func (l *ledger) convertPlace() error {
	const field = storageField + ".prefix"
	prefix := l.fieldText(field)
	trimmed := strings.Trim(prefix, "/") // as Velero does
	isDots := func(part string) bool { return part == "." || part == ".." }
	if !prefixPattern.MatchString(trimmed) || slices.ContainsFunc(strings.Split(trimmed, "/"), isDots) {
		return &refusal{"Grapnel does not accept the prefix; it consists of letters, digits, '_', '.', '-' and '/'"}
	}
	if trimmed == prefix {
		return l.keepField(field, "spec.prefix")
	}
	return l.changeField(field, "spec.prefix", trimmed, "Velero ignores the slashes around it")
}

// convertBucket converts the name of the bucket.
func (l *ledger) convertBucket(target string) error {
	const field = storageField + ".bucket"
	bucket := l.fieldText(field)
	trimmed := strings.Trim(bucket, "/")
	switch {
	case trimmed == "" || strings.Contains(trimmed, "/"):
		return &refusal{field + " is not the name of a bucket"}
	case trimmed != bucket:
		return l.changeField(field, target+".bucket", trimmed, "Velero ignores the slashes around it")
	}
	return l.keepField(field, target+".bucket")
}

// Settings of the AWS plugin that s3 does not have: texts, and those that are true or false.
var (
	pluginTexts = []string{"customerKeyEncryptionFile", "customerKeyEncryptionSecret", "tagging"}
	pluginBools = []string{"enableSharedConfig"}
)

// listPluginSettings returns the settings of the AWS plugin that s3 does not have.
func (l *ledger) listPluginSettings() []string {
	var found []string
	for _, name := range pluginTexts {
		if l.fieldText(configField+"."+name) != "" {
			found = append(found, name)
		}
	}
	for _, name := range pluginBools {
		if isTrue, err := strconv.ParseBool(l.fieldText(configField + "." + name)); err == nil && isTrue {
			found = append(found, name)
		}
	}
	if !endpointPattern.MatchString(l.fieldText(configField + ".s3Url")) {
		found = append(found, "s3Url with a path")
	}
	if algorithm := l.fieldText(encryptionField); !slices.Contains([]string{"", "AES256", "aws:kms"}, algorithm) {
		found = append(found, "this serverSideEncryption")
	}
	if !kmsKeyPattern.MatchString(l.fieldText(kmsKeyField)) {
		found = append(found, "such a kmsKeyId")
	}
	return found
}

// convertAWSConfig converts the settings of the AWS plugin to s3.
func (l *ledger) convertAWSConfig() error {
	err := errors.Join(
		l.keepField(configField+".region", "spec.s3.region"),
		l.keepField(configField+".s3Url", "spec.s3.endpoint"),
		l.keepBool(configField+".s3ForcePathStyle", "spec.s3.forcePathStyle"),
		l.keepBool(skipVerifyField, "spec.s3.insecureSkipTLSVerify"),
		l.convertEncryption(),
		l.convertChecksum(),
	)
	for name, note := range map[string]string{
		"publicUrl":        "the API server serves downloads, so users need not reach the bucket",
		"signatureVersion": "Grapnel uses version 4",
	} {
		l.decideField(configField+"."+name, OutcomeChanged, note)
	}
	for _, name := range slices.Concat(pluginTexts, pluginBools) { // they are not set, or this would not be s3
		l.decideField(configField+"."+name, OutcomeKept, "")
	}
	l.loseVeleroConfig()
	config, _ := l.fieldValue(configField).(map[string]any)
	for key := range config {
		if joinPath(configField, key) == profileField {
			continue // convertCredential decides on it
		}
		l.decideField(joinPath(configField, key), OutcomeLost, "Velero's plugin for AWS does not have this setting")
	}
	return err
}

// keepBool is keepField for a setting that is true or false, as text. False is the default.
func (l *ledger) keepBool(from, to string) error {
	text := l.fieldText(from)
	value, err := strconv.ParseBool(text)
	switch {
	case text != "" && err != nil:
		return fmt.Errorf("%s is neither true nor false", from)
	case value:
		return l.keepAs(from, to, value)
	}
	l.decideField(from, OutcomeKept, "")
	return nil
}

// convertEncryption converts the server-side encryption. A key implies a key management service.
func (l *ledger) convertEncryption() error {
	const target = "spec.s3.serverSideEncryption"
	algorithm, key := l.fieldText(encryptionField), l.fieldText(kmsKeyField)
	if key != "" && algorithm != string(v1alpha1.EncryptionAlgorithmKMS) {
		const note = "Velero uses it with every kmsKeyId"
		return errors.Join(
			l.changeField(encryptionField, target+".algorithm", string(v1alpha1.EncryptionAlgorithmKMS), note),
			l.keepField(kmsKeyField, target+".kmsKeyID"))
	}
	return errors.Join(l.keepField(encryptionField, target+".algorithm"), l.keepField(kmsKeyField, target+".kmsKeyID"))
}

// convertChecksum converts the algorithm of checksums. Without one, Velero uses CRC32, and with an empty one none.
func (l *ledger) convertChecksum() error {
	const field = configField + ".checksumAlgorithm"
	switch algorithm := l.fieldText(field); algorithm {
	case "CRC32", "CRC32C", "SHA1", "SHA256":
		return l.keepField(field, "spec.s3.checksumAlgorithm")
	case "":
		l.decideField(field, OutcomeChanged, "Grapnel uses MD5, which nearly all services support; set spec.s3.checksumAlgorithm to None if yours does not")
	default:
		l.decideField(field, OutcomeChanged, "Grapnel uses MD5 instead: it does not have the algorithm")
	}
	return nil
}

// loseVeleroConfig records the settings that Velero reads itself, and files in its pod.
func (l *ledger) loseVeleroConfig() {
	l.loseField(configField+".resticRepoPrefix", "Grapnel has no restic repositories; "+volumeNote)
	l.loseField(configField+".credentialsFile", "it is a file in Velero's pod; put its content into a Secret, and name that in the location")
	for _, name := range []string{"bucket", "prefix", "caCert"} {
		l.loseField(configField+"."+name, "Velero ignores it, too: the value in spec.objectStorage applies")
	}
}

// convertPluginConfig converts the settings of a location for the object store of a Plugin, which is Velero's.
func (l *ledger) convertPluginConfig() error {
	l.loseVeleroConfig()
	config, _ := l.fieldValue(configField).(map[string]any)
	kept := map[string]any{}
	for key, value := range config {
		path := joinPath(configField, key)
		if _, isLost := l.decided[path]; isLost {
			continue
		}
		text, _ := value.(string)
		if len(text) > maxParameterBytes || !regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`).MatchString(key) {
			return &refusal{"Grapnel does not accept " + path}
		}
		kept[key] = value
	}
	if len(kept) == 0 {
		l.decideField(configField, OutcomeKept, "")
		return nil
	}
	return l.keepAs(configField, "spec.plugin.config", kept)
}

// maxParameterBytes is the longest value of a setting.
const maxParameterBytes = 4096

// convertIntervals converts how often Velero checks the location, and looks for backups.
func (l *ledger) convertIntervals() error {
	return errors.Join(
		l.convertInterval("spec.validationFrequency", "spec.checkInterval"),
		l.convertInterval("spec.backupSyncPeriod", "spec.sync.interval"))
}

// The limits of intervals in the API. Zero turns off what has the interval.
const minInterval, maxInterval = time.Second, 720 * time.Hour

// convertInterval converts an interval.
func (l *ledger) convertInterval(from, to string) error {
	if isUnset(l.fieldValue(from)) {
		return l.keepField(from, to)
	}
	text := l.fieldText(from)
	interval, err := time.ParseDuration(text)
	switch limited := min(max(interval, minInterval), maxInterval); {
	case err != nil || interval < 0:
		return fmt.Errorf("%s is not a valid duration: %.40q", from, text)
	case interval != 0 && interval != limited:
		return l.changeField(from, to, limited.String(), fmt.Sprintf("Grapnel accepts from %s to %dh, and 0s", minInterval, int(maxInterval.Hours())))
	case durationPattern.MatchString(text):
		return l.keepField(from, to)
	}
	return l.changeField(from, to, formatDuration(interval), "it is rounded to milliseconds, and written as Grapnel accepts it")
}

// convertCertificates converts the certificates that verify the service.
func (m *migration) convertCertificates(l *ledger, object *unstructured.Unstructured, target string) error {
	const inline, reference = storageField + ".caCert", storageField + ".caCertRef"
	if isInsecure, err := strconv.ParseBool(l.fieldText(skipVerifyField)); err == nil && isInsecure && target == "spec.s3" {
		for _, field := range []string{inline, reference} {
			l.decideField(field, OutcomeChanged, "it has no effect with insecureSkipTLSVerify")
		}
		return nil
	}
	if isUnset(l.fieldValue(reference)) {
		return errors.Join(l.keepField(reference, reference), l.keepField(inline, target+".caCert"))
	}
	l.decideField(inline, OutcomeChanged, "Velero ignores it: caCertRef applies")
	ref := l.secretRef(reference, object)
	if err := ref.checkNames(); err != nil {
		return &refusal{reference + ": " + err.Error()}
	}
	bundle, err := m.secrets.readCertificates(ref)
	if err != nil {
		l.decideField(reference, OutcomeLost, fmt.Sprintf("%s: set %s.caCert to the certificates, in base64", err, target))
		return nil
	}
	l.decideField(reference, OutcomeChanged, "the location has the certificates themselves")
	return l.setField(target+".caCert", bundle)
}

// credentialsName returns the name of the converted Secret of a location.
func credentialsName(location string) string { return location + "-credentials" }

// defaultCredential is the Secret that Velero's server uses for locations that name none.
var defaultCredential = v1alpha1.SecretKeyReference{Name: "cloud-credentials", Key: "cloud"}

// convertCredential converts the Secret with the credentials.
func (m *migration) convertCredential(l *ledger, object *unstructured.Unstructured, target string) error {
	const field = "spec.credential"
	ref, note := l.secretRef(field, object), ""
	if isUnset(l.fieldValue(field)) {
		ref = secretRef{namespace: object.GetNamespace(), SecretKeyReference: defaultCredential}
		if m.secrets.findSecret(ref) == nil {
			l.loseField(profileField, "it is a profile of a Secret, and there is none")
			l.decideField(field, OutcomeKept, "")
			l.addFieldNote(field, "there is none: Grapnel's operator needs an identity of its own, or name a Secret in "+target)
			return nil
		}
		note = "Velero's server uses its Secret " + ref.Name + "; "
	}
	if err := ref.checkNames(); err != nil {
		return &refusal{field + ": " + err.Error()}
	}
	use := secretUse{name: credentialsName(object.GetName()), key: ref.Key}
	path, value := target+".credential", map[string]any{"name": use.name, "key": ref.Key}
	if target == "spec.s3" {
		use.isAWS, use.profile = true, l.fieldText(profileField)
		if !profilePattern.MatchString(use.profile) {
			return &refusal{"Grapnel does not accept " + profileField}
		}
		path, value = target+".credentialsSecret", map[string]any{"name": use.name}
	}
	command := use.createCommand(m.Namespace)
	switch problem := m.secrets.useSecret(ref, use); {
	case m.secrets.findSecret(ref) == nil:
		note += "create the Secret with: " + command
	case problem != "":
		l.decideField(field, OutcomeLost, fmt.Sprintf("%s; give Grapnel's operator an identity, or name a Secret in %s: %s", problem, path, command))
		l.loseField(profileField, "the Secret is lost, see spec.credential")
		return nil
	case m.IncludeSecrets:
		note += "it becomes Secret " + use.name
	default:
		note += "convert it with --include-secrets, or create the Secret with: " + command
	}
	if use.isAWS {
		if err := l.keepField(profileField, "spec.s3.profile"); err != nil {
			return err
		}
	}
	return l.changeField(field, path, value, note)
}
