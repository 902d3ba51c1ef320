// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// newCanary returns a secret that is put in a place, and that no bundle may have.
func newCanary(place string) string { return "canary-" + place + "-1f9c" }

// phrase is a secret of several lines in YAML.
var phrase = strings.Repeat("canary phrase ", 20) + "end"

// addHostileObjects adds objects, events and logs with secrets, and with names that are paths.
func addHostileObjects(f *fakeCluster) {
	key := "-----BEGIN PRIVATE KEY-----\n" + newCanary("key") + "\n-----END PRIVATE KEY-----\n"
	run := func(kind, name string, age time.Duration) object {
		return object{
			"metadata": object{
				"name": name, "creationTimestamp": timeAgo(age), "managedFields": []any{object{"manager": "kubectl"}},
				"annotations": object{
					"kubectl.kubernetes.io/last-applied-configuration": `{"x":"` + newCanary("applied") + `"}`,
					"kapp.k14s.io/original":                            strings.Repeat("x", 100) + newCanary("original"),
					"example.io/token":                                 newCanary("annotation"),
					"freeze/prebackup":                                 "skip",
				},
			},
			"spec": object{"parameters": object{"example.io/freeze": object{"mode": newCanary("parameter"), "level": "3"}}},
			"status": object{
				"phase": "Failed", "startTimestamp": timeAgo(age), "message": kind + " failed: password=" + newCanary("message"),
				"failureReason": "the program prints " + phrase,
				"backupOutputs": object{"example.io/freeze": object{"lock": newCanary("output")}},
			},
		}
	}
	f.answers[namespacedPath+"/backups"] = newList("Backup", v1alpha1.GroupVersion,
		run("Backup", "old", 3*time.Hour), run("Backup", "../../etc/passwd", 2*time.Hour), run("Backup", ".._.._etc_passwd", time.Hour))
	f.answers[namespacedPath+"/restores"] = newList("Restore", v1alpha1.GroupVersion, run("Restore", "restore-1", time.Minute))
	f.answers[grapnelPath+"/plugins"] = newList("Plugin", v1alpha1.GroupVersion,
		object{"metadata": object{"name": "process"}, "spec": object{"executor": object{"process": object{
			"command": "init/freeze", "args": []string{"--password", newCanary("argument"), "--verbose"},
			"env": []any{object{"name": "MODE", "value": newCanary("variable")}, object{"name": "DB_PASSWORD", "value": "Xk3!q9"}, object{"name": "LEVEL", "value": "info"}, object{"name": "PHRASE", "value": phrase}},
		}}}},
		object{"metadata": object{"name": "webhook"}, "spec": object{"executor": object{
			"webhook": object{"url": "https://hooks.example.com/services/" + newCanary("url"), "tokenSecret": object{"name": "hook-token", "key": "value"}},
		}}})
	f.answers[namespacedPath+"/downloadrequests"] = newList("DownloadRequest", v1alpha1.GroupVersion,
		object{"metadata": object{"name": "d"}, "spec": object{"tokenHash": newCanary("hash")}})
	f.answers[corePath+"/events"] = newList("Event", corev1.SchemeGroupVersion,
		object{
			"metadata": object{"name": "b"}, "type": "Warning", "reason": "Failed", "lastTimestamp": "2026-01-02T03:04:06Z",
			"involvedObject": object{"kind": "Backup", "name": "old"}, "message": "Authorization: Bearer " + newCanary("event"),
		},
		object{
			"metadata": object{"name": "a"}, "type": "Normal", "reason": "Started", "lastTimestamp": "2026-01-02T03:04:05Z",
			"involvedObject": object{"kind": "Backup", "name": "old"}, "message": "first\nsecond",
		})
	f.answers[corePath+"/pods"] = newList("Pod", corev1.SchemeGroupVersion, object{
		"metadata": object{"name": "pod-a"}, "status": object{"phase": "Running", "containerStatuses": []any{object{
			"name": "manager", "restartCount": 1, "ready": true,
			"lastState": object{"terminated": object{"exitCode": 137, "reason": "OOMKilled", "message": "token=" + newCanary("exit")}},
		}}},
	})
	f.files["pod-a"] = "starting\n" + key + "variable is " + newCanary("variable") + " and Xk3!q9\n\x1b[31mend"
	f.files["pod-atrue"] = "the one before\n"
	f.files["BackupLog/old"] = "line 1 secret_key=" + newCanary("log") + "\nlast line\n"
	f.files["BackupLog/.._.._etc_passwd"] = "newest\n"
	f.files["RestoreLog/restore-1"] = "restoring\n"
	f.files["RestorePostLog/restore-1"] = "thawing with " + newCanary("parameter") + "\n"
	f.files["RestoreResults/restore-1"] = `{"errors":{"cluster":["x"]},"warnings":{}}`
}

// readBundle returns the files of an archive, and their names in order.
func readBundle(t *testing.T, archive io.Reader) (files map[string]string, names []string) {
	t.Helper()
	decompressed, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for entries := tar.NewReader(decompressed); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files, names
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		name, isBelow := strings.CutPrefix(header.Name, bundleDirectory+"/")
		if !isBelow || !filepath.IsLocal(name) || header.Typeflag != tar.TypeReg || header.Mode != 0o600 || files[name] != "" {
			t.Errorf("a bad entry: %+v", header)
		}
		files[name], names = string(content), append(names, name)
	}
}

func TestSupportBundle(t *testing.T) {
	f := newFakeCluster()
	addHostileObjects(f)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	code, out, errOut := f.run(t, "v1.2.3", "support-bundle", "-o", file, "--runs", "3")
	if code != exitSuccess || errOut != "" {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	compareGolden(t, "bundle-output.txt", strings.ReplaceAll(out, file, "FILE"))
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	files, names := readBundle(t, bytes.NewReader(archive))
	compareGolden(t, "bundle-names.txt", strings.Join(names, "\n")+"\n")
	for name, content := range files {
		for _, canary := range []string{"canary", "Xk3!q9", "managedFields", "\x1b"} {
			if strings.Contains(content, canary) {
				t.Errorf("%s has %q:\n%s", name, canary, content)
			}
		}
	}
	for name, want := range map[string][]string{
		"doctor.txt":                               {"ok       CRDs "},
		"version.txt":                              {"kubectl-grapnel: v1.2.3\n", "API server: v1.37.0\n", "operator: example.com/grapnel:v1.2.3 (Deployment grapnel-controller-manager)\n"},
		"pods.txt":                                 {"pod pod-a: Running", "last exit: code 137, OOMKilled token=[REDACTED]\n"},
		"logs/pod-a/manager.log":                   {"starting\n[REDACTED]", "variable is [REDACTED] and [REDACTED]\n[31mend\n"},
		"logs/pod-a/manager.previous.log":          {"the one before\n"},
		"events.txt":                               {"2026-01-02T03:04:05Z Normal Started Backup/old: first second\n2026-01-02T03:04:06Z Warning Failed Backup/old: Authorization: [REDACTED]\n"},
		"runs/restore-restore-1/log.txt":           {"restoring\n"},
		"runs/restore-restore-1/post-log.txt":      {"thawing with [REDACTED]\n"},
		"runs/restore-restore-1/results.txt":       {"1 error, 0 warnings\n"},
		"objects/backups/old.yaml":                 {"freeze/prebackup: skip\n", "level: '[REDACTED]'\n", "message: 'Backup failed: password=[REDACTED]", "phase: Failed\n"},
		"objects/plugins/process.yaml":             {"command: init/freeze\n", "- --verbose\n", "name: DB_PASSWORD\n"},
		"objects/plugins/webhook.yaml":             {"url: https://hooks.example.com/[REDACTED]\n", "name: hook-token\n"},
		"objects/backupstoragelocations/main.yaml": {"default: true\n"},
		bundleIndex: {
			"  doctor.txt, ", "  objects/backups/old.yaml, ", "Left out:\n", "  runs/backup-.._.._etc_passwd/results.txt: there is no such file\n",
			"  logs and results of failed runs: 1 more failed; set --runs to include them\n",
		},
	} {
		for _, text := range want {
			if !strings.Contains(files[name], text) {
				t.Errorf("%s has no %q:\n%s", name, text, files[name])
			}
		}
	}

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"it exists":      {[]string{"-o", file}, exitFailure, "set --force to overwrite it"},
		"it is replaced": {[]string{"-o", file, "--force"}, exitSuccess, ""},
		"no directory":   {[]string{"-o", filepath.Join(file, "x")}, exitFailure, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, errOut := f.run(t, "v1", append([]string{"support-bundle"}, tc.args...)...); code != tc.code || !strings.Contains(errOut, tc.want) {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, errOut)
			}
		})
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("temporary files are left: %v (%v)", left, err)
	}
}

// TestSupportBundle_StandardOutput also has a user with fewer rights: those of grapnel-viewer without downloads.
func TestSupportBundle_StandardOutput(t *testing.T) {
	f := newFakeCluster()
	delete(f.answers, "/apis/apps/v1/namespaces/grapnel-system/deployments")
	code, out, errOut := f.run(t, "v1", "support-bundle", "-o", "-")
	if code != exitSuccess || !strings.HasPrefix(errOut, "standard output has ") || !strings.HasSuffix(errOut, "Review it before you share it.\n") {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	files, _ := readBundle(t, strings.NewReader(out))
	for _, want := range []string{
		"plugins: you have no right to read it", "pods of the operator and their logs: you have no right to read it",
		"events: you have no right", "version of the operator: you have no right",
	} {
		if !strings.Contains(files[bundleIndex], want) || !strings.Contains(errOut, want) {
			t.Errorf("no %q in:\n%s%s", want, files[bundleIndex], errOut)
		}
	}
}

func TestSupportBundle_Unreachable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if code, _, errOut := runOffline(t, "support-bundle", "-o", file); code != exitFailure || !strings.Contains(errOut, "cannot be reached") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
}

func TestBundle_Limits(t *testing.T) {
	var archive bytes.Buffer
	b := newBundle(&archive, redact.New(), time.Unix(1, 0))
	line := strings.Repeat("x", 99) + "\n"
	long := strings.Repeat(line, maxBundleFile/len(line)*3) + "the end\n"
	half := errors.New("half of it")
	for _, add := range []struct {
		content io.Reader
		name    string
	}{
		{strings.NewReader("password=secret\n" + long), "long.log"},
		{strings.NewReader("before\n" + strings.Repeat("y", maxBundleLine+10) + "\nafter"), "line.log"},
		{io.MultiReader(strings.NewReader("begin\n"), &brokenReader{half}), "broken.log"},
		{&brokenReader{half}, "none.log"},
		{strings.NewReader(""), "empty.log"},
	} {
		if err := b.addFile(add.content, add.name); err != nil {
			t.Fatal(err)
		}
	}
	b.remaining = tarSize(10)
	for _, name := range []string{"fits.txt", "full.txt"} {
		if err := b.addFile(strings.NewReader("123456789"), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.writeIndexAndClose(); err != nil {
		t.Fatal(err)
	}
	files, names := readBundle(t, &archive)
	if want := []string{"long.log", "line.log", "broken.log", "empty.log", "fits.txt", bundleIndex}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if kept := files["long.log"]; len(kept) > maxBundleFile || len(kept) < maxBundleFile-len(line) || !strings.HasPrefix(kept, line) || !strings.HasSuffix(kept, line+"the end\n") {
		t.Errorf("%d bytes are kept, from %.10q", len(kept), kept)
	}
	if got, want := files["line.log"], fmt.Sprintf("before\n[a line of %d bytes is left out]\nafter\n", maxBundleLine+11); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, want := range []string{
		"  broken.log is incomplete: half of it\n", "  none.log is incomplete: half of it\n", "  full.txt: the bundle would be larger than 100 MiB\n",
		fmt.Sprintf("  long.log, %d bytes, without the first %d bytes\n", len(files["long.log"]), len(long)+len("password=[REDACTED]\n")-len(files["long.log"])),
	} {
		if !strings.Contains(files[bundleIndex], want) {
			t.Errorf("no %q in:\n%s", want, files[bundleIndex])
		}
	}
}

// brokenReader fails.
type brokenReader struct{ err error }

// Read implements io.Reader.
func (r *brokenReader) Read([]byte) (int, error) { return 0, r.err }

func TestSanitizeName(t *testing.T) {
	for name, want := range map[string]string{
		"backup-1.yaml": "backup-1.yaml", "../../etc/passwd": "_.._etc_passwd", "..": "_", "": "_", "/a": "_a", `C:\x`: "C__x", "-rf": "rf",
		"a\x00\nb": "a__b", "grün": "gr_n", strings.Repeat("a", 200) + ".yaml": strings.Repeat("a", 95) + ".yaml",
	} {
		if got := sanitizeName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
