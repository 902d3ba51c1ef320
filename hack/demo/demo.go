// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

const (
	manifests = "hack/demo/manifests/"
	namespace = operator.Namespace
	// patience is how long is waited for what takes seconds.
	patience = 2 * time.Minute
)

// demo is one demonstration.
type demo struct {
	printer
	root, dir string
	keep      bool
	lock      *os.File

	plane    *controlplane.ControlPlane
	client   client.WithWatch
	operator *operator.Operator
	// objects is how many the archive has.
	objects int
	// data is what is in the claim, and halfway how often the progress of an operation was
	// seen, by run.
	data    []byte
	halfway map[string]int
}

// run goes through all steps and ends everything, however they went.
func (d *demo) run(ctx context.Context) error {
	d.write("Grapnel: a backup and a restore with hooks, and the end of the backup, on a real Kubernetes API server on this machine.\n")
	err := d.steps(ctx)
	if err != nil && ctx.Err() == nil && d.operator != nil {
		d.write("\n--- the end of %s\n%s\n", d.short(d.operator.LogPath()), d.operator.LastLogLines())
	}
	if err := errors.Join(err, d.stop()); err != nil {
		return err
	}
	d.gap()
	d.say("Everything is stopped. The files stay in %s until the next time.", d.short(d.dir))
	return nil
}

func (d *demo) steps(ctx context.Context) error {
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"Start a control plane", d.startControlPlane},
		{"Install Grapnel", d.install},
		{"Create an application", d.createApplication},
		{"Say where backups go, and what runs around them", d.configure},
		{"Keep a copy of what there is, to compare with later", d.keepCopy},
		{"Back up the application", d.backUp},
		{"Look at what came of it", d.reviewBackup},
		{"Lose the application", d.loseApplication},
		{"Restore it", d.restore},
		{"Look at what came back", d.reviewRestore},
		{"Destroy the backup", d.destroy},
		{"Look at what is left of it", d.reviewDeletion},
	} {
		d.heading(step.title)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return d.wait(ctx)
}

// reviewBackup shows and checks the result of the backup.
func (d *demo) reviewBackup(ctx context.Context) error {
	facts, err := d.collect(ctx)
	if err != nil {
		return err
	}
	if err := d.report(ctx, facts); err != nil {
		return err
	}
	d.objects = len(facts.objects)
	d.heading("Check that everything is as it should be")
	return verify(&d.printer, facts, checks())
}

func (d *demo) startControlPlane(ctx context.Context) error {
	began := time.Now()
	var err error
	d.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: d.dir, ControllerManager: true})
	if err != nil {
		return err
	}
	config, err := os.ReadFile(d.plane.KubeconfigPath())
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.kubeconfig(), config, 0o600); err != nil {
		return err
	}
	if d.client, err = newClient(d.plane.Config()); err != nil {
		return err
	}
	d.say("etcd, kube-apiserver and kube-controller-manager run after %s. There is no node, so", seconds(time.Since(began)))
	d.say("pods are made but never start. The commands below are run in %s with", d.root)
	d.gap()
	d.command("export KUBECONFIG=$PWD/" + d.short(d.kubeconfig()) + " PATH=$PWD/" + d.short(filepath.Dir(d.plane.KubectlPath())) + ":$PATH")
	return nil
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// Deprecated kinds are a part of what is compared.
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// install does what `kubectl apply -k config/default` does in a cluster with nodes.
func (d *demo) install(ctx context.Context) error {
	if err := d.show(ctx,
		"kubectl apply -k config/crd",
		"kubectl create namespace "+namespace,
		"kubectl wait crd --all --for=condition=Established --timeout=60s",
	); err != nil {
		return err
	}
	d.gap()
	d.say("The operator and the plugin are built now, which takes a while the first time.")
	programs, err := operator.BuildPrograms(ctx)
	if err != nil {
		return err
	}
	programs.FaultPlugin = "" // It is for tests.
	d.operator, err = operator.Start(ctx, operator.Options{
		Programs: programs, Kubeconfig: d.kubeconfig(), Dir: d.dir,
		Args: []string{"--namespace=" + namespace, "--zap-encoder=console", "--zap-time-encoding=rfc3339"},
	})
	if err != nil {
		return err
	}
	d.say("The operator runs as process %d and logs to %s.", d.operator.PID(), d.short(d.operator.LogPath()))
	return nil
}

func (d *demo) createApplication(ctx context.Context) error {
	if err := d.show(ctx,
		"kubectl apply -f "+manifests+"crd.yaml",
		"kubectl wait crd/databases.shop.example --for=condition=Established --timeout=60s",
		"kubectl apply -f "+manifests+"shop",
	); err != nil {
		return err
	}
	pods, err := d.waitForControllers(ctx, applicationNamespaces())
	if err != nil {
		return err
	}
	d.gap()
	d.say("From that, the controllers of Kubernetes have made %d pods and a few things more.", pods)
	return d.createData(ctx)
}

func (d *demo) configure(ctx context.Context) error {
	// The plugin wants to know where to keep its markers.
	state := d.short(d.state())
	return d.show(ctx,
		"kubectl apply -f "+manifests+"location.yaml",
		`sed "s|@STATE@|$PWD/`+state+`|" `+manifests+"plugin.yaml | kubectl apply -f -",
		"kubectl wait gsl/main -n "+namespace+" --for=condition=Ready --timeout=60s",
		"kubectl wait plugin/example --for=condition=Ready --timeout=60s",
	)
}

func (d *demo) backUp(ctx context.Context) error {
	return d.start(ctx, lifecycle.BackupKind, backupName, manifests+"backup.yaml")
}

// start shows and applies the manifest of a run, and follows the run to its end.
func (d *demo) start(ctx context.Context, kind lifecycle.KindTraits, name, file string) error {
	manifest, err := os.ReadFile(filepath.Join(d.root, file))
	if err != nil {
		return err
	}
	_, withoutLicence, _ := strings.Cut(string(manifest), "\n\n")
	d.text(withoutLicence)
	d.gap()
	return d.follow(ctx, kind, name, func() error {
		return d.show(ctx, "kubectl apply -f "+file)
	})
}

// state is the directory where the example plugin has a file for each thing it froze, and the
// data that it copies.
func (d *demo) state() string {
	return filepath.Join(d.dir, "state")
}

// wait keeps everything running until it is interrupted, if the user wants that.
func (d *demo) wait(ctx context.Context) error {
	d.gap()
	if !d.keep {
		d.say("To try more commands yourself, run this again with: go run ./hack/demo -keep")
		return nil
	}
	d.say("Everything keeps running until you press ctrl-C. In another terminal:")
	d.gap()
	d.command("cd " + d.root)
	d.command("export KUBECONFIG=" + d.kubeconfig() + " PATH=" + filepath.Dir(d.plane.KubectlPath()) + ":$PATH")
	d.command("kubectl get backups,restores,deletionruns,hookruns,asyncoperations -n " + namespace + " -w")
	select {
	case <-ctx.Done():
		return nil
	case <-d.operator.Done():
		return d.died()
	}
}

// died reports that the operator has exited although the demo did not stop it.
func (d *demo) died() error {
	return errors.Join(errors.New("the operator exited unexpectedly"), d.operator.Err())
}

// stop ends everything in reverse order.
func (d *demo) stop() error {
	var errs []error
	if d.operator != nil {
		errs = append(errs, d.operator.Stop())
	}
	if d.plane != nil {
		errs = append(errs, d.plane.Stop(), os.Remove(d.kubeconfig()))
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// short returns a path relative to the root of the sources.
func (d *demo) short(path string) string {
	if rel, err := filepath.Rel(d.root, path); err == nil {
		return rel
	}
	return path
}

func seconds(t time.Duration) string {
	return fmt.Sprintf("%.1f s", t.Seconds())
}
