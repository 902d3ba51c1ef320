// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podhook reads the annotations by which a pod tells Velero what to run before and after its
// backup, and after its restore. The owner of a pod writes them, so they may contain anything: what
// cannot be used is replaced by Velero's default or makes the hook a failure, never an error of the
// reader.
package podhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BackupDomain is a part of the name of each annotation for a backup.
const BackupDomain = legacyBackup

// The prefixes of the annotations. Velero reads those without a phase as those before the backup, if
// the pod has no command before it otherwise.
const (
	preBackup    = "pre.hook.backup.velero.io/"
	legacyBackup = "hook.backup.velero.io/"
	postBackup   = "post.hook.backup.velero.io/"
	postRestore  = "post.hook.restore.velero.io/"
	initRestore  = "init.hook.restore.velero.io/"
)

const (
	// DefaultTimeout is how long a command may take that sets no timeout.
	DefaultTimeout = 30 * time.Second
	// defaultInitName is the name of an init container that sets none. Velero adds random characters;
	// a restore that is repeated must find its own container.
	defaultInitName = "velero-restore-init"
)

// The largest command that is run. Its words are in the URL of a request.
const (
	maxCommandBytes = 64 << 10
	maxCommandWords = 256
)

// Hook is a command in a container of the pod.
type Hook struct {
	// Container is the name of the container; "" is the first one.
	Container string
	// Annotation is the name of the annotation that Command is from.
	Annotation string
	// Command is the program and its arguments.
	Command []string
	// Timeout is how long the command may take.
	Timeout time.Duration
	// Continue reports that a failure does not matter to the run.
	Continue bool
	// Problem is why the command cannot be run; it is then a failure.
	Problem string
	// Ignored are the annotations with values that are not valid and have no effect.
	Ignored []string
}

// RestoreHook is a command in a restored pod.
type RestoreHook struct {
	Hook
	// WaitTimeout is how long to wait for the container; 0 means as long as the run may take.
	WaitTimeout time.Duration
	// WaitForReady waits until the container is ready, and not only until it runs.
	WaitForReady bool
}

// InitContainer is a container that is added to a restored pod.
type InitContainer struct {
	Name, Image string
	// Command is empty for that of the image.
	Command []string
}

// dataWaiters are the init containers of Velero that wait for the data of volumes. Like in Velero, they
// stay in front: what an annotation adds may prepare the data.
var dataWaiters = []any{"restore-wait", "restic-wait"}

// Prepend returns the init containers of a pod, as in its JSON, with the container in front. A pod that
// was restored before was archived with that container, which is replaced.
func (c *InitContainer) Prepend(containers []any) []any {
	name := func(container any) any {
		fields, _ := container.(map[string]any)
		return fields["name"]
	}
	added := map[string]any{"name": c.Name, "image": c.Image}
	if len(c.Command) > 0 {
		words := make([]any, len(c.Command))
		for i, word := range c.Command {
			words[i] = word
		}
		added["command"] = words
	}
	kept := slices.DeleteFunc(slices.Clone(containers), func(other any) bool { return name(other) == c.Name })
	at := 0
	if len(kept) > 0 && slices.Contains(dataWaiters, name(kept[0])) {
		at = 1
	}
	return slices.Insert(kept, at, any(added))
}

// HasBackupHook reports whether a pod with these annotations has a command before or after its backup.
func HasBackupHook(annotations map[string]string) bool {
	return PreBackupHook(annotations) != nil || PostBackupHook(annotations) != nil
}

// HasRestoreHook reports whether a pod with these annotations has a command or an init container for
// its restore.
func HasRestoreHook(annotations map[string]string) bool {
	return PostRestoreHook(annotations) != nil || RestoreInitContainer(annotations) != nil
}

// PreBackupHook returns the command to run before the backup; nil if there is none.
func PreBackupHook(annotations map[string]string) *Hook {
	if hook := readHook(annotations, preBackup, "timeout"); hook != nil {
		return hook
	}
	return readHook(annotations, legacyBackup, "timeout")
}

// PostBackupHook returns the command to run after the backup; nil if there is none.
func PostBackupHook(annotations map[string]string) *Hook {
	return readHook(annotations, postBackup, "timeout")
}

// PostRestoreHook returns the command to run when the pod is restored; nil if there is none.
func PostRestoreHook(annotations map[string]string) *RestoreHook {
	hook := readHook(annotations, postRestore, "exec-timeout")
	if hook == nil {
		return nil
	}
	restored := &RestoreHook{Hook: *hook}
	// Velero fails the restore for a command that failed only if the pod says so.
	restored.Continue = annotations[postRestore+"on-error"] != "Fail"
	restored.WaitTimeout = restored.readDuration(annotations, postRestore+"wait-timeout", 0)
	if value := annotations[postRestore+"wait-for-ready"]; value != "" {
		ready, err := strconv.ParseBool(value)
		if err != nil {
			restored.Ignored = append(restored.Ignored, postRestore+"wait-for-ready")
		}
		restored.WaitForReady = ready
	}
	return restored
}

// RestoreInitContainer returns the init container to add to a restored pod; nil if there is none.
func RestoreInitContainer(annotations map[string]string) *InitContainer {
	image := annotations[initRestore+"container-image"]
	if image == "" {
		return nil
	}
	added := &InitContainer{Name: annotations[initRestore+"container-name"], Image: image}
	if added.Name == "" {
		added.Name = defaultInitName
	}
	if command := annotations[initRestore+"command"]; command != "" {
		added.Command = parseCommand(command)
	}
	return added
}

// readHook reads the annotations with a prefix; nil without a command.
func readHook(annotations map[string]string, prefix, timeout string) *Hook {
	command := annotations[prefix+"command"]
	if command == "" {
		return nil
	}
	hook := &Hook{Container: annotations[prefix+"container"], Annotation: prefix + "command", Command: parseCommand(command)}
	hook.Problem = commandProblem(prefix, hook.Command)
	hook.Timeout = hook.readDuration(annotations, prefix+timeout, DefaultTimeout)
	switch annotations[prefix+"on-error"] {
	case "Continue":
		hook.Continue = true
	case "", "Fail":
	default:
		hook.Ignored = append(hook.Ignored, prefix+"on-error")
	}
	return hook
}

// parseCommand returns the words of a command. Like in Velero, a value that is not a JSON array of
// strings is one word.
func parseCommand(value string) []string {
	var words []string
	if strings.HasPrefix(value, "[") && json.Unmarshal([]byte(value), &words) == nil {
		return words
	}
	return []string{value}
}

// commandProblem returns why a command cannot be run; "" if it can.
func commandProblem(prefix string, words []string) string {
	size := 0
	for _, word := range words {
		size += len(word)
	}
	switch {
	case len(words) == 0 || words[0] == "":
		return "the annotation " + prefix + "command names no program"
	case len(words) > maxCommandWords || size > maxCommandBytes:
		return fmt.Sprintf("the annotation %scommand has %d words and %d bytes; at most %d and %d can be run",
			prefix, len(words), size, maxCommandWords, maxCommandBytes)
	case slices.ContainsFunc(words, func(word string) bool { return strings.ContainsRune(word, 0) }):
		return "the annotation " + prefix + "command contains a NUL character"
	}
	return ""
}

// readDuration returns the value of an annotation, or the fallback if it is not a duration above 0.
func (h *Hook) readDuration(annotations map[string]string, name string, fallback time.Duration) time.Duration {
	value := annotations[name]
	if value == "" {
		return fallback
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration < 0 {
		h.Ignored = append(h.Ignored, name)
	}
	if err != nil || duration <= 0 {
		return fallback
	}
	return duration
}
