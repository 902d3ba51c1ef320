// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// TestStart_ThreadExit starts programs from goroutines whose threads end with them.
func TestStart_ThreadExit(t *testing.T) {
	for range 8 {
		cmd := command("echo")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var answer strings.Builder
		cmd.Stdout = &answer
		started := make(chan *program.Process)
		threadID := make(chan int, 1)
		go func() {
			runtime.LockOSThread() // and never unlock
			threadID <- syscall.Gettid()
			p, err := program.Start(cmd)
			if err != nil {
				t.Error(err)
			}
			started <- p
		}()
		p := <-started
		waitForThread(<-threadID)
		if _, err := io.WriteString(stdin, "still here"); err != nil {
			t.Errorf("the program has ended with the thread: %v", err)
		}
		_ = stdin.Close()
		<-p.Done()
		if p.Err() != nil || answer.String() != "still here" {
			t.Errorf("ended with %v after %q", p.Err(), answer.String())
		}
	}
}

// waitForThread returns when a thread of this program has ended. The first thread,
// which has the ID of the process, never does.
func waitForThread(id int) {
	for id != os.Getpid() && syscall.Tgkill(os.Getpid(), id, 0) == nil {
		runtime.Gosched()
	}
}
