// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// roleVariable makes the test program behave like one of the programs that the tests start.
const roleVariable = "GRAPNEL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "fail":
		os.Exit(3)
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "polite":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("ready")
		<-stop
	}
}

func command(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// startReady starts a program and waits until it prints that it is ready.
func startReady(t *testing.T, role string) *program.Process {
	t.Helper()
	// We use our own pipe: cmd.Wait would close the pipe of exec while it is read.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(role)
	cmd.Stdout = writer
	p, err := program.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Kill(), reader.Close()); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err := errors.Join(err, writer.Close()); err != nil || line != "ready\n" {
		t.Fatalf("%s printed %q, %v", role, line, err)
	}
	if p.Err() != nil || syscall.Kill(p.PID(), 0) != nil {
		t.Fatalf("%s does not run: %v", role, p.Err())
	}
	return p
}

func exitCode(t *testing.T, p *program.Process) int {
	t.Helper()
	<-p.Done()
	var exit *exec.ExitError
	if p.Err() != nil && !errors.As(p.Err(), &exit) {
		t.Fatalf("ended with %v", p.Err())
	}
	return exit.ExitCode()
}

func TestProcess_Exit(t *testing.T) {
	t.Run("by itself", func(t *testing.T) {
		p, err := program.Start(command("fail"))
		if err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, p); code != 3 {
			t.Errorf("exit code is %d, want 3", code)
		}
		if err := errors.Join(p.Kill(), p.Stop(time.Minute)); err != nil {
			t.Errorf("stopping an ended program: %v", err)
		}
	})
	t.Run("on request", func(t *testing.T) {
		p := startReady(t, "polite")
		if err := p.Stop(time.Minute); err != nil {
			t.Fatal(err)
		}
		if p.Err() != nil {
			t.Errorf("ended with %v", p.Err())
		}
	})
	t.Run("when killed", func(t *testing.T) {
		p := startReady(t, "polite")
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, p); code != -1 {
			t.Errorf("exit code is %d, want that of a signal", code)
		}
	})
	t.Run("when it ignores the signal", func(t *testing.T) {
		p := startReady(t, "stubborn")
		if err := p.Stop(time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
			t.Errorf("error is %v, want one that says that it was killed", err)
		}
		if code := exitCode(t, p); code != -1 {
			t.Errorf("exit code is %d, want that of a signal", code)
		}
	})
}

func TestStart_MissingProgram(t *testing.T) {
	if _, err := program.Start(exec.Command("/nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v, want that there is no such file", err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command(path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestBuild(t *testing.T) {
	source, dir := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	target := filepath.Join(dir, "hello")
	write(t, filepath.Join(source, "go.mod"), "module example.com/hello\n\ngo 1.25\n")
	main := filepath.Join(source, "main.go")
	hello := func(text string) {
		write(t, main, "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\""+text+"\") }\n")
	}

	hello("one")
	var builds errgroup.Group
	for range 3 {
		builds.Go(func() error { return program.Build(t.Context(), source, target) })
	}
	if err := builds.Wait(); err != nil {
		t.Fatalf("building three times at once: %v", err)
	}
	if got := output(t, target); got != "one" {
		t.Errorf("printed %q, want one", got)
	}

	// The first program is still in use when the second is built.
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Link(target, linked); err != nil {
		t.Fatal(err)
	}
	hello("two")
	if err := program.Build(t.Context(), source, target); err != nil {
		t.Fatal(err)
	}
	if old, current := output(t, linked), output(t, target); old != "one" || current != "two" {
		t.Errorf("the linked program printed %q, want one; the target printed %q, want two", old, current)
	}

	write(t, main, "package main\n\nfunc main() { undefined() }\n")
	if err := program.Build(t.Context(), source, target); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("error is %v, want the output of the compiler", err)
	}
	if got := output(t, target); got != "two" {
		t.Errorf("after a failed build, the target printed %q, want two", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("other files than the program are left: %v, %v", entries, err)
	}
}

func TestModuleRoot(t *testing.T) {
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "test", "exampleplugin")) // A nested module.
	if again, err := program.ModuleRoot(); err != nil || again != root {
		t.Errorf("from a nested module the root is %q, want %q (%v)", again, root, err)
	}
	t.Chdir(t.TempDir())
	if elsewhere, err := program.ModuleRoot(); err == nil {
		t.Errorf("outside of the sources the root is %q", elsewhere)
	}
}
