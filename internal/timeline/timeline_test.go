// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// describe returns the time of a Timeline and its rows, with seconds since noon.
func describe(t Timeline) []string {
	seconds := func(at time.Time) string { return fmt.Sprint(at.Sub(noon).Seconds()) }
	lines := []string{fmt.Sprintf("%s-%s running=%v", seconds(t.Start), seconds(t.End), t.Running)}
	for _, section := range t.Sections {
		for _, row := range section.Rows {
			var spans []string
			for _, span := range row.Spans {
				spans = append(spans, fmt.Sprintf("%s-%s %s", seconds(span.Start), seconds(span.End), span.State))
			}
			lines = append(lines, fmt.Sprintf("%s|%s|%s|%v|%s", section.Name, row.describeRow(), row.State, row.Duration, strings.Join(spans, ",")))
		}
	}
	return lines
}

func TestBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		sample func() *sample
		want   []string
	}{
		"not reconciled": {
			sample: func() *sample { return newSample("", open) },
			want:   []string{"0-3600 running=true"},
		},
		"of an earlier version": {
			sample: func() *sample {
				s := newSample(v1alpha1.RunPhaseCompleted, open)
				s.run.Status.StartTimestamp, s.run.Status.CompletionTimestamp = &metav1.Time{Time: at(5)}, &metav1.Time{Time: at(9)}
				return s
			},
			want: []string{"5-9 running=false"},
		},
		"a finished run ends with its last stage": {
			sample: func() *sample {
				return newSample(v1alpha1.RunPhaseCompleted, 7, stage("Queued", 1), stage("Archiving", 3))
			},
			want: []string{"1-7 running=false", "Stages|Queued|passed|2s|1-3 passed", "Stages|Archiving|passed|4s|3-7 passed"},
		},
		"a running one ends now, and a stage may recur": {
			sample: func() *sample {
				return newSample(v1alpha1.RunPhaseNew, open, stage("Queued", 0), stage("WaitingForPlugins", 1), stage("Queued", 5), stage("WaitingForPlugins", 6))
			},
			want: []string{
				"0-3600 running=true", "Stages|Queued: 2 times|passed|2s|0-1 passed,5-6 passed",
				"Stages|… WaitingForPlugins: running|running|59m58s|1-5 passed,6-3600 running",
			},
		},
		"a clock that is behind": {
			sample: func() *sample {
				s := newSample(v1alpha1.RunPhaseInProgress, open, stage("Queued", 0), stage("Archiving", 5))
				s.now = at(-10)
				return s
			},
			want: []string{"0-5 running=true", "Stages|Queued|passed|5s|0-5 passed", "Stages|… Archiving: running|running|0s|5-5 running"},
		},
		"hooks and attempts": {
			sample: func() *sample {
				s := newSample(v1alpha1.RunPhaseInProgress, open, stage("RunningPreBackupActions", 0))
				s.now = at(20)
				s.hooks = []v1alpha1.HookRun{
					newHookRun("PreBackup", "a", v1alpha1.HookRunPhaseCompleted, attempt(1, 2, "")),
					newHookRun("PreBackup", "b", v1alpha1.HookRunPhaseFailed, attempt(2, 4, "TimedOut")),
					newHookRun("PreBackup", "c", v1alpha1.HookRunPhaseInProgress, attempt(4, 5, "PluginUnreachable"), attempt(7, 8, "Interrupted"), attempt(8, open, "")),
					newHookRun("PreBackup", "d", v1alpha1.HookRunPhaseCancelled, attempt(4, 5, "Cancelled")),
					newHookRun("PostBackup", "e", v1alpha1.HookRunPhasePending),
				}
				return s
			},
			want: []string{
				"0-20 running=true", "Stages|… RunningPreBackupActions: running|running|20s|0-20 running",
				"Hooks|✓ PreBackup a|succeeded|1s|1-2 succeeded",
				"Hooks|✗ PreBackup b: Failed, TimedOut|failed|2s|2-4 failed",
				"Hooks|… PreBackup c: InProgress, 3 attempts|running|16s|4-5 failed,7-8 stopped,8-20 running",
				"Hooks|✗ attempt 1: PluginUnreachable|failed|1s|4-5 failed",
				"Hooks|attempt 2: Interrupted|stopped|1s|7-8 stopped",
				"Hooks|… attempt 3: running|running|12s|8-20 running",
				"Hooks|PreBackup d: Cancelled|stopped|1s|4-5 stopped",
				"Hooks|PostBackup e: Pending|pending|0s|",
			},
		},
		"operations with times that cannot be": {
			sample: func() *sample {
				s := newSample(v1alpha1.RunPhaseCompleted, 50, stage("Archiving", 10))
				s.operations = []v1alpha1.AsyncOperation{
					newOperation(1, v1alpha1.AsyncOperationPhaseCompleted, 0, 20), newOperation(2, v1alpha1.AsyncOperationPhaseFailed, 60, 30),
					newOperation(3, v1alpha1.AsyncOperationPhaseCancelled, 15, 16), newOperation(4, "", 17, open),
				}
				s.operations[3].Status.StartTimestamp = nil
				s.operations[3].Spec.Item.Namespace = ""
				return s
			},
			want: []string{
				"10-50 running=false", "Stages|Archiving|passed|40s|10-50 passed",
				"Operations|✓ example.io/move shop/data-1|succeeded|10s|10-20 succeeded",
				"Operations|example.io/move shop/data-3: Cancelled|stopped|1s|15-16 stopped",
				"Operations|… example.io/move data-4: New|running|33s|17-50 running",
				"Operations|✗ example.io/move shop/data-2: Failed|failed|0s|30-30 failed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(tc.sample().build())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupOperations(t *testing.T) {
	newOperations := func(n int, phase func(i int) v1alpha1.AsyncOperationPhase) []v1alpha1.AsyncOperation {
		var operations []v1alpha1.AsyncOperation
		for i := range n {
			operations = append(operations, newOperation(i, phase(i), float64(n-i), open)) // the last one started first
		}
		return operations
	}
	completed := func(int) v1alpha1.AsyncOperationPhase { return v1alpha1.AsyncOperationPhaseCompleted }
	for name, tc := range map[string]struct {
		operations []v1alpha1.AsyncOperation
		want       []string
	}{
		"none":       {},
		"by start":   {operations: newOperations(2, completed), want: []string{"example.io/move shop/data-1 Completed", "example.io/move shop/data-0 Completed"}},
		"many equal": {operations: newOperations(maxSingleOperations+1, completed), want: []string{"21 × example.io/move Completed"}},
		"many, two of which failed": {
			operations: newOperations(48, func(i int) v1alpha1.AsyncOperationPhase {
				return map[bool]v1alpha1.AsyncOperationPhase{true: v1alpha1.AsyncOperationPhaseFailed, false: v1alpha1.AsyncOperationPhaseCompleted}[i == 3 || i == 40]
			}),
			want: []string{"example.io/move shop/data-40 Failed", "example.io/move shop/data-3 Failed", "46 × example.io/move Completed"},
		},
		"all of many failed": {
			operations: newOperations(24, func(int) v1alpha1.AsyncOperationPhase { return v1alpha1.AsyncOperationPhaseFailed }),
			want: append(slices.Collect(func(yield func(string) bool) {
				for i := range maxSingleOperations {
					if !yield(fmt.Sprintf("example.io/move shop/data-%d Failed", 23-i)) {
						return
					}
				}
			}), "4 × example.io/move Failed"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, group := range GroupOperations(tc.operations) {
				got = append(got, group.Label()+" "+string(group.Phase))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTicks(t *testing.T) {
	for total, want := range map[time.Duration]string{
		0:                        "0",
		time.Microsecond:         "0 1µs",
		37 * time.Microsecond:    "0 10µs 20µs 30µs",
		610 * time.Millisecond:   "0 200ms 400ms 600ms",
		time.Second:              "0 500ms 1s",
		95 * time.Second:         "0 30s 1m 1m30s",
		2*time.Hour - 1:          "0 30m 1h 1h30m",
		50 * time.Hour:           "0 12h 1d 1d12h 2d",
		1000 * day:               "0 320d 640d 960d",
		time.Duration(1<<63 - 1): "0 40960d 81920d",
	} {
		t.Run(total.String(), func(t *testing.T) {
			drawn := Timeline{Start: noon, End: noon.Add(total)}
			var got []string
			for _, tick := range drawn.chooseTicks(4) {
				got = append(got, formatTick(tick))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0s", 0: "0s", 999 * time.Microsecond: "999µs", time.Millisecond: "1.0ms", 9960 * time.Microsecond: "10ms", 999_600 * time.Microsecond: "1.00s",
		850 * time.Millisecond: "850ms", 9994 * time.Millisecond: "9.99s", 9996 * time.Millisecond: "10.0s", 59_960 * time.Millisecond: "1m00s",
		125 * time.Second: "2m05s", time.Hour - 1: "1h00m", 62 * time.Minute: "1h02m", day - 1: "1d00h", 76 * time.Hour: "3d04h",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
