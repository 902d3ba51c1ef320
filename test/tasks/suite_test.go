// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// The users of the suite, each with the role of its name.
const (
	viewer          = "grapnel-viewer"
	backupOperator  = "grapnel-backup-operator"
	restoreOperator = "grapnel-restore-operator"
	administrator   = "grapnel-admin"
	stranger        = "stranger" // has no role
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

const namespace = "grapnel-system"

var world struct {
	env.Env
	dir string
}

func TestTasks(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Tasks")
}

var _ = BeforeSuite(func() {
	Expect(world.Start(env.Options{ControllerManager: true})).To(Succeed())
	world.dir = GinkgoT().TempDir()
	world.SharedOperator(suite.Spec(GinkgoTB()))
	for _, dir := range []string{"rbac/people", "policy"} {
		apply := exec.Command(world.ControlPlane.KubectlPath(), "apply", "-k", filepath.Join("..", "..", "config", dir))
		apply.Env = append(os.Environ(), "KUBECONFIG="+world.ControlPlane.KubeconfigPath())
		out, err := apply.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}
	for _, user := range []string{viewer, backupOperator, restoreOperator, administrator, stranger} {
		Expect(addUser(user)).To(Succeed())
	}
	waitForRights(context.Background())
})

var _ = AfterSuite(func() { Expect(world.Stop()).To(Succeed()) })

// addUser creates a user with the role of the name, and a kubeconfig for it.
func addUser(name string) error {
	config, err := world.ControlPlane.AddUser(name)
	if err != nil {
		return err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	kubeconfig.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: name}
	kubeconfig.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*kubeconfig, kubeconfigPath(name)); err != nil || name == stranger {
		return err
	}
	return world.Client.Create(context.Background(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
}

func kubeconfigPath(user string) string { return filepath.Join(world.dir, user+".kubeconfig") }

// output is what a command printed, and its exit code.
type output struct {
	code     int
	out, err string
}

// String is for messages of failures.
func (o output) String() string { return fmt.Sprintf("exit code %d\n%s%s", o.code, o.out, o.err) }

// grapnel runs a command line as a user, with an answer to questions.
func grapnel(ctx context.Context, user, answer string, args ...string) output {
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(answer), Out: &out, ErrOut: &errOut}
	code := cli.Run(ctx, streams, "test", append([]string{"--kubeconfig", kubeconfigPath(user)}, args...))
	o := output{code: code, out: out.String(), err: errOut.String()}
	GinkgoLogr.Info("kubectl grapnel "+strings.Join(args, " "), "user", user)
	_, _ = fmt.Fprintln(GinkgoWriter, o)
	return o
}

// interruptingBuffer calls a function once its text contains another one.
type interruptingBuffer struct {
	buffer bytes.Buffer
	text   string
	found  func()
}

// Write implements io.Writer.
func (b *interruptingBuffer) Write(p []byte) (int, error) {
	n, err := b.buffer.Write(p)
	if strings.Contains(b.buffer.String(), b.text) {
		b.found()
	}
	return n, err
}

// interruptWhen runs a command line as a user, and interrupts it, as Ctrl-C does, when it has shown a text.
func interruptWhen(ctx context.Context, text, user string, args ...string) output {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out bytes.Buffer
	errOut := &interruptingBuffer{text: text, found: cancel}
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: errOut}
	code := cli.Run(ctx, streams, "test", append([]string{"--kubeconfig", kubeconfigPath(user)}, args...))
	return output{code: code, out: out.String(), err: errOut.buffer.String()}
}

// task performs a task with one command, and returns what it printed. It fails if the exit code is another one.
func task(ctx context.Context, user string, code int, command string) string {
	GinkgoHelper()
	o := grapnel(ctx, user, "", strings.Fields(command)...)
	Expect(o.code).To(Equal(code), "kubectl grapnel %s: %s", command, o)
	return o.out
}

// waitForRights waits until the API server knows the bindings, and the policy for downloads.
func waitForRights(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		for _, user := range []string{viewer, backupOperator, restoreOperator, administrator} {
			g.Expect(grapnel(ctx, user, "", "backup", "get").code).To(Equal(0), user)
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfigPath(viewer))
		g.Expect(err).NotTo(HaveOccurred())
		as, err := client.New(config, client.Options{Scheme: world.Client.Scheme()})
		g.Expect(err).NotTo(HaveOccurred())
		archive := &v1alpha1.DownloadRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "refused-"},
			Spec: v1alpha1.DownloadRequestSpec{
				Target: v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupContents, Name: "any"}, TokenHash: strings.Repeat("0a", 32),
			},
		}
		g.Expect(apierrors.IsForbidden(as.Create(ctx, archive, client.DryRunAll))).To(BeTrue())
	}).WithTimeout(time.Minute).Should(Succeed())
}
