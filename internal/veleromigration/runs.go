// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

const (
	// scheduleLabel is on the Backups that a Schedule of Velero created.
	scheduleLabel = "velero.io/schedule-name"
	// templateSuffix ends the name of a Backup if the location has the backup of the original name.
	templateSuffix = "-grapnel"

	maxScheduleName = 180
	maxPatternBytes = 253
)

const (
	volumeNote = "capture the data of volumes with CSI snapshots: docs/guides/volumes.md; or protect it by other means, for example with Velero beside Grapnel"
	hooksNote  = "declare the hooks as actions of a Plugin, for example with podExec: docs/guides/hooks.md"
	policyNote = "write its rules as lists of namespaces and resources, or as selectors"
)

// lostField is a field of Velero that Grapnel does not have.
type lostField struct{ name, note string }

// lostBackupFields are those of the spec of a Backup.
func lostBackupFields() []lostField {
	return []lostField{
		{"hooks", hooksNote},
		{"resourcePolicy", policyNote},
		{"snapshotVolumes", volumeNote},
		{"volumeSnapshotLocations", volumeNote},
		{"defaultVolumesToFsBackup", volumeNote},
		{"defaultVolumesToRestic", volumeNote},
		{"snapshotMoveData", volumeNote},
		{"datamover", volumeNote},
		{"uploaderConfig", volumeNote},
		{"csiSnapshotTimeout", "it has no effect without snapshots; set itemOperationTimeout for those that a Plugin takes"},
	}
}

// lostRestoreFields are those of the spec of a Restore.
func lostRestoreFields() []lostField {
	return []lostField{
		{"hooks", hooksNote},
		{"resourcePolicy", policyNote},
		{"restorePVs", volumeNote},
		{"uploaderConfig", volumeNote},
	}
}

// checkSelectors refuses a spec with both kinds of selectors, which Velero and Grapnel reject.
func (l *ledger) checkSelectors(spec string) error {
	if isUnset(l.fieldValue(spec+".labelSelector")) || isUnset(l.fieldValue(spec+".orLabelSelectors")) {
		return nil
	}
	return &refusal{"labelSelector and orLabelSelectors exclude each other, in Velero, too; set one of them"}
}

// convertBackupSpec converts the spec of a Backup, or of the template of a Schedule, to a field of the converted object.
func (l *ledger) convertBackupSpec(from, to string) error {
	if err := l.checkSelectors(from); err != nil {
		return err
	}
	for _, name := range velero.BackupFields() {
		source, target := from+"."+name, to+"."+name
		var err error
		switch name {
		case "ttl":
			err = l.convertTTL(source, target)
		case "itemOperationTimeout":
			err = l.convertTimeout(source, target)
		default:
			err = errors.Join(l.checkPatterns(source), l.keepField(source, target))
		}
		if err != nil {
			return err
		}
	}
	for _, lost := range lostBackupFields() {
		l.loseField(from+"."+lost.name, lost.note)
	}
	return l.keepField(from+".volumeGroupSnapshotLabelKey", to+".volumes.group")
}

// convertTTL converts how long a backup is kept. The default is the same.
func (l *ledger) convertTTL(from, to string) error {
	if ttl, err := time.ParseDuration(l.fieldText(from)); err == nil && ttl > backupimport.MaxDuration {
		return l.changeField(from, to, zeroDuration, "Grapnel accepts at most 99999h; with 0s, a backup is kept until it is deleted")
	}
	isSet, err := l.convertDuration(from, to, "")
	if !isSet {
		l.decideField(from, OutcomeKept, "")
	}
	return err
}

// convertTimeout converts the timeout of operations.
func (l *ledger) convertTimeout(from, to string) error {
	isSet, err := l.convertDuration(from, to, "Grapnel accepts at most 99999h; the timeout of the Plugin applies")
	if !isSet {
		l.decideField(from, OutcomeKept, "")
	}
	return err
}

var durationPattern = regexp.MustCompile(`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`)

// convertDuration converts a duration, and reports whether it is set: if not, it records nothing. A longer duration than
// the API accepts is omitted, with a note.
func (l *ledger) convertDuration(from, to, omitted string) (isSet bool, err error) {
	text := l.fieldText(from)
	if isUnset(l.fieldValue(from)) || text == zeroDuration {
		return false, nil
	}
	duration, err := time.ParseDuration(text)
	switch {
	case err != nil || duration <= 0:
		return false, fmt.Errorf("%s is not a valid duration: %.40q", from, text)
	case duration > backupimport.MaxDuration:
		l.decideField(from, OutcomeChanged, omitted)
		return true, nil
	case durationPattern.MatchString(text):
		return true, l.keepField(from, to)
	}
	duration = max(duration.Truncate(time.Millisecond), time.Millisecond)
	return true, l.changeField(from, to, formatDuration(duration), "it is rounded to milliseconds, and written as Grapnel accepts it")
}

// formatDuration returns a duration with at most three decimals.
func formatDuration(d time.Duration) string {
	whole := d.Truncate(time.Second)
	if rest := d - whole; rest > 0 {
		return fmt.Sprintf("%s%dms", whole, rest.Milliseconds())
	}
	return whole.String()
}

// checkPatterns refuses names that Grapnel does not accept. Without them, the list would select something else.
func (l *ledger) checkPatterns(field string) error {
	list, _ := l.fieldValue(field).([]any)
	for _, pattern := range list {
		switch text, isText := pattern.(string); {
		case isText && text == "":
			return &refusal{field + ` has an empty name, which Velero takes to mean "only cluster-scoped objects"; ` +
				"use the scoped lists of resources: docs/known-issues.md"}
		case isText && len(text) > maxPatternBytes:
			return &refusal{fmt.Sprintf("%s has a name of more than %d bytes", field, maxPatternBytes)}
		}
	}
	return nil
}

// renameObject sets the name of the converted object, if it is not too long.
func (l *ledger) renameObject(name string, limit int, note string) error {
	if len(name) > limit {
		return &refusal{fmt.Sprintf("its name has more than %d characters; create it with a shorter one", limit)}
	}
	if name == l.fieldText("metadata.name") {
		return nil
	}
	return l.changeField("metadata.name", "metadata.name", name, note)
}

// hasRun reports whether Velero has worked on a Backup or Restore.
func (l *ledger) hasRun() bool { return l.fieldText("status.phase") != "" }

// convertSchedule converts a Schedule.
func (m *migration) convertSchedule(l *ledger) error {
	if err := l.renameObject(l.fieldText("metadata.name"), maxScheduleName, ""); err != nil {
		return err
	}
	const template = "spec.template"
	// Velero gives these labels to the Backups, as Grapnel does with those of the template.
	if err := l.keepField(template+".metadata.labels", template+".metadata.labels"); err != nil {
		return err
	}
	l.loseField("spec.useOwnerReferencesInBackup", "the Backups outlive their Schedule; delete them with `kubectl grapnel backup delete`")
	return errors.Join(
		l.convertCron(),
		l.keepField("spec.paused", "spec.suspend"),
		l.convertSkipImmediately(),
		l.convertBackupSpec(template, template+".spec"),
	)
}

// convertSkipImmediately converts a field that Velero resets when it has skipped a Backup, while Grapnel leaves it as it is.
func (l *ledger) convertSkipImmediately() error {
	const field = "spec.skipImmediately"
	if l.fieldValue(field) != true {
		return l.keepField(field, field)
	}
	return l.changeField(field, field, true, "it stays true, and applies whenever the Schedule is resumed; Velero resets it")
}

var zonedCron = regexp.MustCompile(`^(?:CRON_)?TZ=(\S+)\s+(.+)$`)

// convertCron converts a cron expression. Its time zone has a field of its own.
func (l *ledger) convertCron() error {
	const field = "spec.schedule"
	zoned := zonedCron.FindStringSubmatch(l.fieldText(field))
	if zoned == nil {
		return l.keepField(field, field)
	}
	return errors.Join(l.changeField(field, field, strings.TrimSpace(zoned[2]), "the time zone is in spec.timeZone"), l.setField("spec.timeZone", zoned[1]))
}

// convertBackup converts a Backup that no Schedule created.
func (m *migration) convertBackup(l *ledger, object *unstructured.Unstructured) error {
	name := object.GetName()
	if l.hasRun() {
		name += templateSuffix
	}
	if err := l.renameObject(name, backupimport.MaxBackupName, "its location has a stored backup of the old name, which Grapnel imports"); err != nil {
		return err
	}
	if err := l.convertBackupSpec("spec", "spec"); err != nil {
		return err
	}
	key, err := specKey(object)
	m.templates[key] = object.GetName()
	return err
}

// explainUnneeded says why Grapnel needs no Backup for one of Velero; empty if it does.
func (m *migration) explainUnneeded(object *unstructured.Unstructured) string {
	if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase == "" {
		return ""
	}
	if object.GetLabels()[scheduleLabel] != "" {
		return "a Schedule created it; Grapnel imports the stored backup from its location"
	}
	key, err := specKey(object)
	if other := m.templates[key]; err == nil && other != "" && other != object.GetName() {
		return "it has the spec of Backup " + other + "; Grapnel imports the stored backup from its location"
	}
	return ""
}

// specKey returns a key that Backups with the same spec have in common.
func specKey(object *unstructured.Unstructured) (string, error) {
	key, err := json.Marshal(object.Object["spec"])
	return string(key), err
}

// convertResourceModifier converts the reference to a ConfigMap, whose content needs no conversion.
func (l *ledger) convertResourceModifier(field string) error {
	if isUnset(l.fieldValue(field)) {
		return l.keepField(field, field)
	}
	name := l.fieldText(field + ".name")
	if name == "" || !strings.EqualFold(l.fieldText(field+".kind"), "ConfigMap") {
		l.loseField(field, "it names no ConfigMap")
		return nil
	}
	return l.changeField(field, field, map[string]any{"kind": "ConfigMap", "name": name}, "copy ConfigMap "+name+" into the namespace of the Restore; it needs no conversion")
}

// convertRestore converts a Restore.
func (m *migration) convertRestore(l *ledger) error {
	if err := l.checkSelectors("spec"); err != nil {
		return err
	}
	const backup, schedule = "spec.backupName", "spec.scheduleName"
	switch {
	case l.fieldText(backup) == "" && l.fieldText(schedule) == "":
		return &refusal{"it names neither a Backup nor a Schedule"}
	case l.fieldText(backup) == "":
		note := "it means the newest Backup that the converted Schedule creates, and none that Velero created"
		if err := l.changeField(schedule, schedule, l.fieldText(schedule), note); err != nil {
			return err
		}
	case l.fieldText(schedule) != "":
		l.decideField(schedule, OutcomeChanged, "Velero chose the Backup in spec.backupName by it")
	}
	for _, name := range slices.Concat([]string{"backupName"}, velero.RestoreFields()) {
		source := "spec." + name
		if _, done := l.decided[source]; done {
			continue
		}
		var err error
		switch name {
		case "itemOperationTimeout":
			err = l.convertTimeout(source, source)
		case "resourceModifier":
			err = l.convertResourceModifier(source)
		default:
			err = errors.Join(l.checkPatterns(source), l.keepField(source, source))
		}
		if err != nil {
			return err
		}
	}
	for _, lost := range lostRestoreFields() {
		l.loseField("spec."+lost.name, lost.note)
	}
	if !l.hasRun() {
		return nil
	}
	return l.changeField("spec.dryRun", "spec.dryRun", true, "Velero restored it already; remove dryRun to restore it again")
}
