// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// writeVeleroFile writes a file with objects of Velero.
func writeVeleroFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "velero.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	veleroSchedule = "apiVersion: velero.io/v1\nkind: Schedule\nmetadata: {name: nightly, namespace: velero}\nspec: {schedule: '@daily', template: {ttl: 24h}}\n"
	veleroLocation = "apiVersion: velero.io/v1\nkind: BackupStorageLocation\nmetadata: {name: default, namespace: velero}\n" +
		"spec: {provider: aws, objectStorage: {bucket: backups}}\n"
	veleroSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: cloud-credentials, namespace: velero}\n" +
		"stringData: {cloud: \"[default]\\naws_access_key_id=AKID\\naws_secret_access_key=swordfish\\n\"}\n"
	swordfish = "W2RlZmF1bHRdCmF3c19hY2Nlc3Nfa2V5X2lkPUFLSUQKYXdzX3NlY3JldF9hY2Nlc3Nfa2V5PXN3b3JkZmlzaAo=" // the file in base64
)

func TestMigrateVelero(t *testing.T) {
	for name, tc := range map[string]struct {
		input       string
		flags       []string
		code        int
		out, errOut string
	}{
		"everything is kept or changed": {input: veleroSchedule, out: "kind: Schedule\n", errOut: "becomes Schedule grapnel-system/nightly\n"},
		"a namespace":                   {input: veleroSchedule, flags: []string{"--to-namespace", "other"}, out: "namespace: other\n", errOut: "Schedule other/nightly\n"},
		"something is lost": {
			input: strings.Replace(veleroSchedule, "ttl: 24h", "snapshotVolumes: true", 1), code: exitPartialFailure,
			out: "kind: Schedule\n", errOut: "lost     spec.template.snapshotVolumes: ",
		},
		"without Secrets": {input: veleroSecret + "---\n" + veleroLocation, out: "name: default-credentials\n", errOut: "convert it with --include-secrets"},
		"with Secrets": {
			input: veleroSecret + "---\n" + veleroLocation, flags: []string{"--include-secrets"}, out: "cloud: " + swordfish + "\n",
			errOut: "it becomes Secret default-credentials",
		},
		"an invalid object": {input: veleroSchedule + "---\nkind: x\n", code: exitFailure, errOut: "velero.yaml, document 2: apiVersion is missing"},
		"a namespace of files": {
			input: veleroSchedule, flags: []string{"-n", "velero"}, code: exitFailure, errOut: "set either --namespace or --filename",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"migrate", "velero", "-f", writeVeleroFile(t, tc.input)}, tc.flags...)
			code, out, errOut := runOffline(t, args...)
			if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errOut, tc.errOut) {
				t.Errorf("exit code %d, want %d\n%s\nwant %q\n%s\nwant %q", code, tc.code, out, tc.out, errOut, tc.errOut)
			}
			if strings.Contains(errOut, "swordfish") || strings.Contains(errOut, swordfish) || strings.Contains(out, swordfish) != (tc.flags != nil && tc.flags[0] == "--include-secrets") {
				t.Errorf("the value of a Secret is printed, or missing:\n%s\n%s", out, errOut)
			}
		})
	}
}

// TestMigrateVelero_StandardInput: several files are converted together, and a Secret of one is found from another.
func TestMigrateVelero_StandardInput(t *testing.T) {
	t.Setenv(namespaceVariable, "from-variable")
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(veleroSecret), Out: &out, ErrOut: &errOut}
	code := Run(t.Context(), streams, "test", []string{"migrate", "velero", "-f", writeVeleroFile(t, veleroLocation), "-f", "-"})
	if code != exitSuccess || !strings.Contains(out.String(), "name: default-credentials") || !strings.Contains(out.String(), "namespace: from-variable") ||
		!strings.Contains(errOut.String(), "Secret velero/cloud-credentials (standard input, document 1)") {
		t.Errorf("exit code %d\n%s\n%s", code, out.String(), errOut.String())
	}
}

// TestMigrateVelero_Files: each object and the report get a file that only the user can read, and no file is overwritten.
func TestMigrateVelero_Files(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "converted")
	report := filepath.Join(t.TempDir(), "report.txt")
	args := []string{"migrate", "velero", "-f", writeVeleroFile(t, veleroSecret+"---\n"+veleroLocation+"---\n"+veleroSchedule), "-o", dir, "--report", report, "--include-secrets"}
	if code, out, errOut := runOffline(t, args...); code != exitSuccess || out != "" || errOut != "" {
		t.Fatalf("exit code %d, %q, %q", code, out, errOut)
	}
	files := map[string]string{
		filepath.Join(dir, "secret-default-credentials.yaml"):    "kind: Secret\n",
		filepath.Join(dir, "backupstoragelocation-default.yaml"): "kind: BackupStorageLocation\n",
		filepath.Join(dir, "schedule-nightly.yaml"):              "kind: Schedule\n",
		report: "Converted: 1 Secrets, 1 BackupStorageLocations, 1 Schedules. ",
	}
	for path, want := range files {
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v, %s", path, err, content)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, err, info)
		}
	}
	if written, err := os.ReadDir(dir); err != nil || len(written) != len(files)-1 {
		t.Errorf("%v, %v", written, err)
	}
	if code, _, errOut := runOffline(t, args...); code != exitFailure || !strings.Contains(errOut, "exists; choose another directory") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}
