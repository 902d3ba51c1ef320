// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// operate makes this program an operator that loads the plugin at path and calls it
// until it is killed.
func operate(path string) {
	c := catalog.New(catalog.Options{})
	env := map[string]string{}
	for _, name := range []string{"FAULT_CALL_LOG", "FAULT_KILL_PARENT_AT", "FAULT_KILL_PARENT_WHEN"} {
		env[name] = os.Getenv(name)
	}
	spec := catalog.Spec{Name: "p", Process: catalog.ProcessSpec{Path: path, Env: env, StartTimeout: safety}}
	ctx := context.Background()
	if _, err := c.Load(ctx, spec); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for call := 1; ; call++ {
		e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
		if err == nil {
			_, err = e.Execute(ctx, preBackup(fmt.Sprint("key-", call), nil))
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if call == 3 {
			// Called often enough; now wait for the end.
			select {}
		}
	}
}

// TestCatalog_OperatorKilled kills an operator, from outside and by its plugin,
// and expects its plugin to end as well.
func TestCatalog_OperatorKilled(t *testing.T) {
	for name, tc := range map[string]struct {
		env       []string
		wantCalls int
	}{
		"killed from outside":                 {wantCalls: 3},
		"killed by the second call":           {env: []string{"FAULT_KILL_PARENT_AT=PreBackup:2"}, wantCalls: 2},
		"killed before the second call works": {env: []string{"FAULT_KILL_PARENT_AT=PreBackup:2", "FAULT_KILL_PARENT_WHEN=before"}, wantCalls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			binary, calls := filepath.Join(dir, "plugin"), filepath.Join(dir, "calls")
			copyPlugin(t, "faultplugin", binary)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			operator := exec.CommandContext(t.Context(), self)
			operator.Env = append(append(os.Environ(), "CATALOG_TEST_OPERATOR="+binary, "FAULT_CALL_LOG="+calls), tc.env...)
			var out strings.Builder
			operator.Stdout, operator.Stderr = &out, &out
			if err := operator.Start(); err != nil {
				t.Fatal(err)
			}
			lines := func() int {
				data, _ := os.ReadFile(calls)
				return strings.Count(string(data), "\n")
			}
			plugintesting.Eventually(t, fmt.Sprint(tc.wantCalls, " calls were made"), func() bool { return lines() >= tc.wantCalls })
			if tc.env == nil {
				if err := operator.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = operator.Wait()
			if status, ok := operator.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("the operator ended with %s: %s", operator.ProcessState, out.String())
			}
			plugintesting.Eventually(t, "the plugin ended", func() bool { return len(plugintesting.FindProcesses(binary)) == 0 })
			if n := lines(); n != tc.wantCalls {
				t.Errorf("%d calls were made, want %d", n, tc.wantCalls)
			}
		})
	}
}
