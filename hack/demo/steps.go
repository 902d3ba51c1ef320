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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

const (
	manifests = "hack/demo/manifests/"
	namespace = operator.Namespace
	// reportFile is the name of the page about the restore.
	reportFile = "report.html"
	// timeout is the limit of steps that take seconds.
	timeout = 2 * time.Minute

	backupName, restoreName, scheduleName = "shop", "shop-again", "nightly"
	// claimName is the PersistentVolumeClaim whose data the example plugin copies. The restore maps
	// its namespace.
	claimName                      = "orders"
	dataNamespace, mappedNamespace = "shop-data", "shop-data-restored"
)

// demo is the state of one demo.
type demo struct {
	root, dir string
	keep      bool
	step      int

	plane    *controlplane.ControlPlane
	client   client.WithWatch
	operator *operator.Operator

	// claimData is the content of the claim before the backup.
	claimData []byte
	// progressLines counts the lines of the last run that showed an operation in the middle of its
	// work.
	progressLines int
	// archivedObjects is the number of objects in the archive.
	archivedObjects int64
}

func (d *demo) runSteps(ctx context.Context) error {
	fmt.Println("Grapnel: a backup and a restore with hooks, and the deletion of the backup, on a real Kubernetes API server on this machine.")
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Start a control plane", d.startControlPlane},
		{"Install Grapnel", d.installOperator},
		{"Deploy an application", d.deployApplication},
		{"Configure a storage location and a plugin", d.configure},
		{"Back up the application", d.backUp},
		{"Inspect the backup", d.inspectBackup},
		{"Delete the application", d.deleteApplication},
		{"Restore the application", d.restore},
		{"Inspect the restore", d.inspectRestore},
		{"Delete the backup", d.deleteBackup},
		{"Back up with a Schedule, and look back", d.runSchedule},
	} {
		d.printHeading(step.title)
		if err := step.run(ctx); err != nil {
			if d.operator != nil && ctx.Err() == nil {
				fmt.Printf("\nThe end of %s:\n%s\n", d.operator.LogPath(), d.operator.LastLogLines())
			}
			return err
		}
	}
	return d.waitIfKept(ctx)
}

func (d *demo) startControlPlane(ctx context.Context) error {
	start := time.Now()
	var err error
	if d.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: d.dir, ControllerManager: true}); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	config := rest.CopyConfig(d.plane.Config())
	config.WarningHandler = rest.NoWarnings{} // deprecated kinds are backed up, too
	if d.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	printLine("etcd, kube-apiserver and kube-controller-manager are ready after %.1f s. There is no node:", time.Since(start).Seconds())
	printLine("pods are created, but never start. All commands run in %s with", d.root)
	printLine("export %s", d.environment())
	return nil
}

// environment returns the variables that the commands need.
func (d *demo) environment() string {
	return "KUBECONFIG=" + d.plane.KubeconfigPath() + " PATH=" + d.programPath() + ":$PATH"
}

// programPath returns the directories of kubectl and of its plugin for Grapnel.
func (d *demo) programPath() string {
	return filepath.Dir(d.plane.KubectlPath()) + string(os.PathListSeparator) + d.dir
}

// installOperator does what `kubectl apply -k config/default` does in a cluster that has nodes.
func (d *demo) installOperator(ctx context.Context) error {
	if err := d.runCommands(ctx,
		"kubectl apply -k config/crd",
		"kubectl create namespace "+namespace,
		"kubectl wait crd --all --for=condition=Established --timeout=60s",
	); err != nil {
		return err
	}
	fmt.Println()
	printLine("Building the programs takes a while the first time.")
	if err := d.runCommands(ctx, "CGO_ENABLED=0 go build -o "+d.relative("kubectl-grapnel")+" ./cmd/kubectl-grapnel"); err != nil {
		return err
	}
	programs, err := operator.BuildPrograms(ctx)
	if err != nil {
		return err
	}
	programs.FaultPlugin = "" // only tests need it
	d.operator, err = operator.Start(ctx, operator.Options{
		Programs: programs, Kubeconfig: d.plane.KubeconfigPath(), Dir: d.dir,
		Args: []string{"--namespace=" + namespace, "--zap-encoder=console", "--zap-time-encoding=rfc3339"},
	})
	if err != nil {
		return err
	}
	printLine("The operator is running as process %d and logs to %s.", d.operator.PID(), d.operator.LogPath())
	return nil
}

func (d *demo) deployApplication(ctx context.Context) error {
	directory := d.relative("state", "example-data", dataNamespace, claimName)
	if err := d.runCommands(ctx,
		"kubectl apply -f "+manifests+"crd.yaml",
		"kubectl wait crd/databases.shop.example --for=condition=Established --timeout=60s",
		"kubectl apply -f "+manifests+"shop",
		// The example plugin takes this directory for the volume of the claim.
		"mkdir -p "+directory+" && head -c 300K /dev/urandom > "+directory+"/table",
	); err != nil {
		return err
	}
	var err error
	if d.claimData, err = os.ReadFile(d.claimFile(dataNamespace)); err != nil {
		return err
	}
	if err := d.waitForControllers(ctx, "shop-frontend", "shop-backend", dataNamespace); err != nil {
		return err
	}
	return d.saveObjects(ctx, "before.json")
}

// claimFile is the file with the data of the claim in a namespace.
func (d *demo) claimFile(namespace string) string {
	return filepath.Join(d.dir, "state", "example-data", namespace, claimName, "table")
}

// waitForControllers waits until the controllers of Kubernetes have created what they create in
// some namespaces, so that the objects can be compared.
func (d *demo) waitForControllers(ctx context.Context, namespaces ...string) error {
	missing := ""
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		for _, name := range namespaces {
			var err error
			if missing, err = d.findMissingObject(ctx, name); err != nil || missing != "" {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the controllers of Kubernetes: %s: %w", missing, err)
	}
	return nil
}

// findMissingObject describes an object that controllers will still create in a namespace.
func (d *demo) findMissingObject(ctx context.Context, name string) (string, error) {
	in := client.InNamespace(name)
	var deployments appsv1.DeploymentList
	if err := d.client.List(ctx, &deployments, in); err != nil {
		return "", err
	}
	for _, deployment := range deployments.Items {
		if deployment.Status.Replicas != *deployment.Spec.Replicas {
			return "pods of the Deployment " + deployment.Name, nil
		}
	}
	var services corev1.ServiceList
	if err := d.client.List(ctx, &services, in); err != nil {
		return "", err
	}
	wanted := []client.Object{&corev1.ServiceAccount{}, &corev1.ConfigMap{}}
	wanted[0].SetName("default")
	wanted[1].SetName("kube-root-ca.crt")
	for _, service := range services.Items {
		endpoints := &corev1.Endpoints{} //nolint:staticcheck // the controller still creates them
		endpoints.Name = service.Name
		wanted = append(wanted, endpoints)
	}
	for _, object := range wanted {
		object.SetNamespace(name)
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return fmt.Sprintf("%T %s/%s", object, name, object.GetName()), client.IgnoreNotFound(err)
		}
	}
	return "", nil
}

// saveObjects writes all objects of the namespaces, the Namespaces and the definitions to a file.
func (d *demo) saveObjects(ctx context.Context, file string) error {
	return d.runCommands(ctx, `kinds=$(kubectl api-resources --namespaced --verbs=list -o name | grep -v ^events | paste -sd,); `+
		`kubectl get "$kinds,ns,crd" -A -o json --show-managed-fields > `+d.relative(file))
}

func (d *demo) configure(ctx context.Context) error {
	return d.runCommands(ctx,
		"kubectl apply -f "+manifests+"location.yaml",
		`sed "s|@STATE@|$PWD/`+d.relative("state")+`|" `+manifests+"plugin.yaml | kubectl apply -f -",
		"kubectl wait gsl/main -n "+namespace+" --for=condition=Ready --timeout=60s",
		"kubectl wait plugin/example --for=condition=Ready --timeout=60s",
	)
}

func (d *demo) backUp(ctx context.Context) error {
	// The actions take some seconds, so that there is something to see. The plugin has one more action,
	// which the annotation skips.
	spec := " --include-namespaces 'shop-*' --exclude-resources events,events.events.k8s.io" +
		" --annotations example.io/notify.postbackup=skip"
	if err := d.runCommands(ctx, "kubectl grapnel plan backup"+spec); err != nil {
		return err
	}
	return d.startRun(ctx, "Backup", backupName, "kubectl grapnel backup create "+backupName+spec+
		" --parameter example.io/freeze:sleep=1s --parameter example.io/freeze:replicas=3 --parameter example.io/copy:bytesPerSecond=102400")
}

func (d *demo) deleteApplication(ctx context.Context) error {
	return d.runCommands(ctx,
		"kubectl delete namespace shop-frontend shop-backend "+dataNamespace,
		"rm -r "+d.relative("state", "example-data", dataNamespace),
		"kubectl get namespaces",
	)
}

func (d *demo) restore(ctx context.Context) error {
	// The plugin gets the number of replicas from what it put out before the backup. The definition of
	// Databases is in no namespace.
	if err := d.startRun(ctx, "Restore", restoreName, "kubectl grapnel restore create "+restoreName+" --from-backup "+backupName+
		" --include-namespaces shop-frontend,shop-backend,"+dataNamespace+" --include-cluster-resources"+
		" --namespace-mappings "+dataNamespace+"="+mappedNamespace+
		" --parameter example.io/freeze:sleep=1s --parameter example.io/copy:bytesPerSecond=307200"); err != nil {
		return err
	}
	if err := d.waitForControllers(ctx, "shop-frontend", "shop-backend", mappedNamespace); err != nil {
		return err
	}
	return d.saveObjects(ctx, "after.json")
}

func (d *demo) deleteBackup(ctx context.Context) error {
	stored := "find " + d.relative("store", "main") + " " + d.relative("state", "example-copies") + " -type f"
	if err := d.runCommands(ctx, stored); err != nil {
		return err
	}
	if err := d.startRun(ctx, "DeletionRun", "", "kubectl grapnel backup delete "+backupName+" --confirm"); err != nil {
		return err
	}
	if err := d.runCommands(ctx, "kubectl get backups.grapnel.dev,restores.grapnel.dev,deletionruns,hookruns -n "+namespace, stored); err != nil {
		return err
	}
	return d.checkDeletion(ctx)
}

// runSchedule backs up with a Schedule, and shows where the time went.
func (d *demo) runSchedule(ctx context.Context) error {
	return d.runCommands(ctx,
		"kubectl grapnel schedule create "+scheduleName+" --schedule '0 3 * * *' --skip-immediately --include-namespaces 'shop-*' --ttl 720h"+
			" --parameter example.io/freeze:sleep=1s --parameter example.io/copy:bytesPerSecond=307200",
		"kubectl grapnel schedule run "+scheduleName+" --wait",
		"kubectl grapnel schedule get",
		"kubectl grapnel timeline $(kubectl get backups.grapnel.dev -n "+namespace+" -o jsonpath='{.items[0].metadata.name}')",
	)
}

// waitIfKept waits until the demo is interrupted, if the user wants to try more commands.
func (d *demo) waitIfKept(ctx context.Context) error {
	fmt.Println()
	if !d.keep {
		printLine("The files stay in %s until the next demo; %s is a page about the restore, for a browser.", d.dir, d.relative(reportFile))
		printLine("To try more commands, run: go run ./hack/demo -keep")
		printLine("To back up the data of volumes, on a cluster with a CSI driver on this machine: make e2e-up, then docs/guides/volumes.md")
		return nil
	}
	printLine("Everything keeps running until you press ctrl-C. In another terminal, for example:")
	fmt.Println()
	printBlock(strings.Join([]string{
		"cd " + d.root,
		"export " + d.environment(),
		"kubectl get backups.grapnel.dev,restores.grapnel.dev,deletionruns,hookruns,asyncoperations -n " + namespace,
		"kubectl grapnel --help",
	}, "\n"))
	select {
	case <-ctx.Done():
		return nil
	case <-d.operator.Done():
		return d.operatorExited()
	}
}

func (d *demo) operatorExited() error {
	return errors.Join(errors.New("the operator exited unexpectedly"), d.operator.Err())
}

// stop ends everything in reverse order.
func (d *demo) stop() error {
	var errs []error
	if d.operator != nil {
		errs = append(errs, d.operator.Stop())
	}
	if d.plane != nil {
		errs = append(errs, d.plane.Stop())
	}
	return errors.Join(errs...)
}
