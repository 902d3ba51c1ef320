// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/diagnosis"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

const (
	// bundleTimeout is how long the collection of a bundle may take. What is missing then is left out.
	bundleTimeout = 5 * time.Minute
	// podLogLines is how many lines of the log of a container are read.
	podLogLines = 50_000
)

// newSupportBundleCommand returns the command that collects what a bug report needs.
func (a *app) newSupportBundleCommand() *cobra.Command {
	var file string
	var overwrite bool
	var failedRuns int
	command := &cobra.Command{
		Use: "support-bundle", Short: "Collect objects, logs and the findings of doctor for a bug report", Args: cobra.NoArgs,
		Long: "Collect objects, logs and the findings of doctor for a bug report, in a compressed tarball.\n\n" +
			"Secrets and archives are never in it; variables of Plugins, parameters, and what looks like a secret are replaced.\n" +
			"What you may not read is left out. Review the bundle before you share it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			now := time.Now()
			if file == "" {
				file = "grapnel-support-" + now.UTC().Format("20060102-150405") + ".tar.gz"
			}
			if file == standardOutput {
				if a.out.isTerminal {
					return errors.New("the bundle is not text: redirect the output, or set -o FILE")
				}
				b, err := a.writeBundle(cmd.Context(), c, a.out.raw, now, failedRuns)
				return errors.Join(err, a.printBundle(a.errOut, b, "standard output"))
			}
			if err := checkOverwrite(file, overwrite); err != nil {
				return err
			}
			var b *bundle
			err = writeFile(file, func(w io.Writer) (err error) {
				b, err = a.writeBundle(cmd.Context(), c, w, now, failedRuns)
				return err
			})
			if err != nil {
				return err
			}
			return a.printBundle(a.out, b, file)
		},
	}
	command.Flags().StringVarP(&file, "output", "o", "", "path of the file, or - for standard output (default grapnel-support-TIME.tar.gz)")
	command.Flags().BoolVar(&overwrite, "force", false, "overwrite an existing file")
	command.Flags().IntVar(&failedRuns, "runs", 5, "of how many failed runs to include logs and results, the newest ones")
	return command
}

// printBundle prints what is in a bundle; nil is none.
func (a *app) printBundle(out *terminal, b *bundle, file string) error {
	if b == nil {
		return nil
	}
	counts := map[string]int{}
	var lines []string
	for _, f := range b.files {
		dir := path.Dir(f.name)
		if dir == "." {
			lines = append(lines, f.name)
			continue
		}
		if counts[dir]++; counts[dir] == 1 {
			lines = append(lines, dir)
		}
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%s has %d files:\n", file, len(b.files)+1)
	for _, line := range append(lines, bundleIndex) {
		if n := counts[line]; n > 0 {
			line += fmt.Sprintf("/ (%d)", n)
		}
		text.WriteString("  " + line + "\n")
	}
	for _, line := range b.leftOut {
		text.WriteString("Left out: " + line + "\n")
	}
	return out.printf("%sIt has names of namespaces, objects and hosts. Review it before you share it.\n", text.String())
}

// bundleCollector reads what is in a bundle.
type bundleCollector struct {
	*bundle

	c        *connection
	snapshot *diagnosis.Snapshot
	redactor objectRedactor
	// objects are Grapnel's objects, redacted, in the order of diagnosis.KnownResources.
	objects [][]unstructured.Unstructured
}

// writeBundle writes a bundle. The error is for a cluster that cannot be reached, and a user who may not read Grapnel's
// objects.
func (a *app) writeBundle(ctx context.Context, c *connection, w io.Writer, now time.Time, failedRuns int) (*bundle, error) {
	limited, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	snapshot, err := a.observeInstallation(limited, c)
	if err != nil {
		return nil, err
	}
	redactor := redact.New()
	k := &bundleCollector{bundle: newBundle(w, redactor, now.UTC().Truncate(time.Second)), c: c, snapshot: snapshot, redactor: objectRedactor{redactor}}
	k.listObjects(limited)
	for _, add := range []func() error{
		func() error { return k.addDiagnosis(limited, a.version) },
		func() error { return k.addPods(limited) },
		func() error { return k.addEvents(limited) },
		func() error { return k.addRuns(limited, failedRuns) },
		k.addObjects,
		k.writeIndexAndClose,
	} {
		if err := cmp.Or(add(), ctx.Err()); err != nil { // an interruption of the user, not the timeout
			return nil, err
		}
	}
	return k.bundle, nil
}

// listObjects reads and redacts all objects. It comes first: values that are secret in objects are also removed from logs.
func (k *bundleCollector) listObjects(ctx context.Context) {
	for _, resource := range diagnosis.KnownResources() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(resource.Kind + "List"))
		if err := k.c.List(ctx, list, client.InNamespace(k.c.namespace)); err != nil {
			k.leaveOut(resource.Name, err)
		}
		// The newest first: if there is not enough space, they are the ones that are needed.
		slices.SortFunc(list.Items, func(x, y unstructured.Unstructured) int {
			return cmp.Or(y.GetCreationTimestamp().Compare(x.GetCreationTimestamp().Time), strings.Compare(x.GetName(), y.GetName()))
		})
		for i := range list.Items {
			k.redactor.redactObject(&list.Items[i])
		}
		k.objects = append(k.objects, list.Items)
	}
}

// addObjects adds a file for each object.
func (k *bundleCollector) addObjects() error {
	for i, resource := range diagnosis.KnownResources() {
		for _, object := range k.objects[i] {
			// Here and not only by line: YAML breaks long texts.
			content, err := yaml.Marshal(k.redactor.redactTexts(object.Object))
			if err != nil {
				return err
			}
			if err := k.addFile(bytes.NewReader(content), "objects", resource.Name, object.GetName()+".yaml"); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDiagnosis adds the findings of doctor, and the versions.
func (k *bundleCollector) addDiagnosis(ctx context.Context, version string) error {
	var findings, versions bytes.Buffer
	if err := writeFindings(&findings, diagnosis.DiagnoseInstallation(k.snapshot)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(&versions, "kubectl-grapnel: %s\nnamespace: %s\n", version, k.c.namespace)
	if d, err := discovery.NewDiscoveryClientForConfig(k.c.config); err != nil {
		k.leaveOut("version of the API server", err)
	} else if server, err := d.ServerVersionWithContext(ctx); err != nil {
		k.leaveOut("version of the API server", err)
	} else {
		_, _ = fmt.Fprintf(&versions, "API server: %s\n", server)
	}
	if err := k.snapshot.Deployments.Err; err != nil {
		k.leaveOut("version of the operator", err)
	}
	for i := range k.snapshot.Deployments.Value.Items {
		d := &k.snapshot.Deployments.Value.Items[i]
		_, _ = fmt.Fprintf(&versions, "operator: %s (Deployment %s)\n", diagnosis.OperatorImage(d), d.Name)
	}
	return cmp.Or(k.addFile(&findings, "doctor.txt"), k.addFile(&versions, "version.txt"))
}

// addPods adds the state of the operator's pods, and their logs.
func (k *bundleCollector) addPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.c.List(ctx, &pods, client.InNamespace(k.c.namespace), client.MatchingLabels(diagnosis.OperatorLabels())); err != nil {
		k.leaveOut("pods of the operator and their logs", err)
		return nil
	}
	logs, err := corev1client.NewForConfig(k.c.config)
	if err != nil {
		return err
	}
	slices.SortFunc(pods.Items, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	var states bytes.Buffer
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, _ = fmt.Fprintf(&states, "pod %s: %s %s %s\n", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
		for _, container := range pod.Status.ContainerStatuses {
			_, _ = fmt.Fprintf(&states, "  container %s: ready %t, %d restarts\n", container.Name, container.Ready, container.RestartCount)
			if waiting := container.State.Waiting; waiting != nil {
				_, _ = fmt.Fprintf(&states, "    waits: %s %s\n", waiting.Reason, waiting.Message)
			}
			if last := container.LastTerminationState.Terminated; last != nil {
				_, _ = fmt.Fprintf(&states, "    last exit: code %d, %s %s\n", last.ExitCode, last.Reason, last.Message)
			}
		}
	}
	if err := k.addFile(&states, "pods.txt"); err != nil {
		return err
	}
	for i := range pods.Items {
		for _, container := range pods.Items[i].Status.ContainerStatuses {
			if err := k.addPodLogs(ctx, logs, pods.Items[i].Name, container); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPodLogs adds the log of a container, and that of the one before it.
func (k *bundleCollector) addPodLogs(ctx context.Context, logs corev1client.PodsGetter, pod string, container corev1.ContainerStatus) error {
	for _, previous := range []bool{false, true}[:1+min(container.RestartCount, 1)] {
		suffix := ".log"
		if previous {
			suffix = ".previous.log"
		}
		options := &corev1.PodLogOptions{Container: container.Name, Previous: previous, TailLines: new(int64(podLogLines))}
		log, err := logs.Pods(k.c.namespace).GetLogs(pod, options).Stream(ctx)
		if err != nil {
			k.leaveOut("log of container "+container.Name+suffix+" of pod "+pod, err)
			continue
		}
		if err := errors.Join(k.addFile(log, "logs", pod, container.Name+suffix), log.Close()); err != nil {
			return err
		}
	}
	return nil
}

// addEvents adds the events of the namespace.
func (k *bundleCollector) addEvents(ctx context.Context) error {
	var events corev1.EventList
	if err := k.c.List(ctx, &events, client.InNamespace(k.c.namespace)); err != nil {
		k.leaveOut("events", err)
		return nil
	}
	at := func(e *corev1.Event) time.Time {
		if !e.LastTimestamp.IsZero() {
			return e.LastTimestamp.Time
		}
		return cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	slices.SortFunc(events.Items, func(x, y corev1.Event) int {
		return cmp.Or(at(&x).Compare(at(&y)), strings.Compare(x.Name, y.Name))
	})
	var text bytes.Buffer
	for i := range events.Items {
		e := &events.Items[i]
		message := strings.Join(strings.Fields(e.Message), " ")
		_, _ = fmt.Fprintf(&text, "%s %s %s %s/%s: %s\n", at(e).UTC().Format(time.RFC3339), e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, message)
	}
	return k.addFile(&text, "events.txt")
}

// failedRun is a run whose logs are in the bundle.
type failedRun struct {
	runKind

	run run
}

// listFailedRuns returns the failed Backups and Restores, the newest first.
func (k *bundleCollector) listFailedRuns() []failedRun {
	var failed []failedRun
	for i := range k.snapshot.Backups.Value.Items {
		failed = append(failed, failedRun{backups, &k.snapshot.Backups.Value.Items[i]})
	}
	for i := range k.snapshot.Restores.Value.Items {
		failed = append(failed, failedRun{restores, &k.snapshot.Restores.Value.Items[i]})
	}
	failed = slices.DeleteFunc(failed, func(f failedRun) bool {
		// Before a run starts, there is nothing but its status.
		return f.run.Run().StartTimestamp == nil || !diagnosis.IsFailure(f.run.GetPhase())
	})
	slices.SortFunc(failed, func(x, y failedRun) int {
		return cmp.Or(y.run.Run().StartTimestamp.Compare(x.run.Run().StartTimestamp.Time), strings.Compare(x.run.GetName(), y.run.GetName()))
	})
	return failed
}

// addRuns adds the logs and results of the newest failed runs.
func (k *bundleCollector) addRuns(ctx context.Context, most int) error {
	failed := k.listFailedRuns()
	if hidden := len(failed) - max(most, 0); hidden > 0 {
		failed = failed[:len(failed)-hidden]
		k.leaveOut("logs and results of failed runs", fmt.Errorf("%d more failed; set --runs to include them", hidden))
	}
	for _, f := range failed {
		dir := f.commandName() + "-" + f.run.GetName()
		for _, file := range []struct {
			kind v1alpha1.DownloadTargetKind
			name string
			copy func(io.Writer, io.Reader) error
		}{{f.log, "log.txt", copyAll}, {f.postLog, "post-log.txt", copyAll}, {f.results, "results.txt", writeResults}} {
			err := k.addDownload(ctx, file.kind, f.run.GetName(), file.copy, "runs", dir, file.name)
			if errors.Is(err, download.ErrNoOperator) {
				k.leaveOut("logs and results of failed runs", err)
				return nil // the others would only take more time
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// copyAll copies a file as it is.
func copyAll(out io.Writer, file io.Reader) error {
	_, err := io.Copy(out, file)
	return err
}

// addDownload adds a file of a run, which a function copies as text. The error is download.ErrNoOperator, or one of the
// archive.
func (k *bundleCollector) addDownload(
	ctx context.Context, kind v1alpha1.DownloadTargetKind, name string, copyText func(io.Writer, io.Reader) error, segments ...string,
) error {
	var archiveErr error
	err := k.c.withFile(ctx, kind, name, false, func(file io.Reader) error {
		text, w := io.Pipe()
		go func() { w.CloseWithError(copyText(w, file)) }()
		archiveErr = k.addFile(text, segments...)
		return text.Close()
	})
	isPostLog := kind == v1alpha1.DownloadBackupPostLog || kind == v1alpha1.DownloadRestorePostLog
	if isPostLog {
		err = ignoreNoFile(err) // a run without Post actions has none
	}
	switch {
	case archiveErr != nil || errors.Is(err, download.ErrNoOperator):
		return cmp.Or(archiveErr, err)
	case err != nil:
		k.leaveOut(bundlePath(segments...), err)
	}
	return nil
}
