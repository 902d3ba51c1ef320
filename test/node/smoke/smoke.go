// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/grapnel-dev/grapnel/hack/release/image"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/images"
	"github.com/grapnel-dev/grapnel/test/node/pki"
)

// Namespace is where everything lies.
const Namespace = "e2e-smoke"

// limit is how long all of it may take on a busy machine.
const limit = 10 * time.Minute

const webhookImage = "docker.io/local/smoke-webhook:1"

//go:embed manifests.yaml
var manifests string

// restored is applied when the claim that it takes a snapshot of has data.
//
//go:embed restored.yaml
var restored string

// Options say which cluster is checked.
type Options struct {
	// Root is the repository's directory.
	Root       string
	Kubeconfig string
	// Load puts an image from a file on the cluster's nodes.
	Load func(ctx context.Context, file string) error
	Out  io.Writer
}

// Run checks a cluster, says on Out what works, and fails at the first thing that does
// not.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "grapnel-smoke-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := o.loadImages(ctx, dir); err != nil {
		return err
	}
	err = o.check(ctx, dir)
	if err != nil {
		said, _ := o.kubectl(context.WithoutCancel(ctx), "get", "pods,pvc,events", "-n", Namespace, "--request-timeout=10s")
		err = fmt.Errorf("%w\n--- what there is\n%s", err, said)
	}
	_, deleted := o.kubectl(context.WithoutCancel(ctx), "delete", "--ignore-not-found", "--timeout=120s",
		"namespace/"+Namespace, "validatingwebhookconfiguration/"+Namespace)
	return errors.Join(err, deleted)
}

// step is one check.
type step struct {
	title string
	args  []string
	// want is a part of what kubectl says; it is expected to fail if fails is set.
	want  string
	fails bool
}

func steps() []step {
	n := "--namespace=" + Namespace
	return []step{
		{title: "Deployments have pods", args: []string{"rollout", "status", "deployment/web", "deployment/webhook", n, "--timeout=180s"}, want: "successfully rolled out"},
		{title: "a Job ends, with a volume, names and a Service", args: []string{"wait", "job/client", n, "--for=condition=Complete", "--timeout=180s"}, want: "met"},
		{title: "logs", args: []string{"logs", "job/client", n}, want: "hello from web-"},
		{title: "a Service without pods refuses", args: []string{"logs", "job/client", n}, want: "Connection refused"},
		{title: "a dynamic volume", args: []string{"wait", "job/writer", n, "--for=condition=Complete", "--timeout=180s"}, want: "met"},
		{title: "a snapshot", args: []string{"apply", "-f", "restored.yaml"}, want: "created"},
		{title: "is ready", args: []string{"wait", "volumesnapshot/written", n, "--for=jsonpath={.status.readyToUse}=true", "--timeout=60s"}, want: "met"},
		{title: "a volume of it", args: []string{"wait", "job/reader", n, "--for=condition=Complete", "--timeout=180s"}, want: "met"},
		{title: "has its data", args: []string{"logs", "job/reader", n}, want: "written before the snapshot"},
		{title: "exec", args: []string{"exec", "deployment/web", n, "--", "id", "-u"}, want: "65532"},
		{title: "a webhook behind a Service", args: []string{"apply", "-f", "refused.yaml"}, want: "the webhook has seen refused", fails: true},
		{title: "what the webhook is not asked about", args: []string{"create", "configmap", "accepted", n}, want: "created"},
		{title: "a pod is deleted", args: []string{"delete", "pods", "-l", "app=web", n, "--timeout=60s"}, want: "deleted"},
		{title: "and made again", args: []string{"rollout", "status", "deployment/web", n, "--timeout=180s"}, want: "successfully rolled out"},
	}
}

const refused = "{apiVersion: v1, kind: ConfigMap, metadata: {name: refused, namespace: " + Namespace + ", labels: {smoke: refused}}}\n"

func (o Options) check(ctx context.Context, dir string) error {
	for name, text := range map[string]string{"all.yaml": manifests, "restored.yaml": restored, "refused.yaml": refused} {
		content, err := render(text)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if _, err := o.kubectl(ctx, "apply", "-f", filepath.Join(dir, "all.yaml")); err != nil {
		return err
	}
	for _, s := range steps() {
		began := time.Now()
		for i, arg := range s.args {
			if strings.HasSuffix(arg, ".yaml") {
				s.args[i] = filepath.Join(dir, arg)
			}
		}
		out, err := o.kubectl(ctx, s.args...)
		if (err != nil) != s.fails || !strings.Contains(out, s.want) {
			return errors.Join(fmt.Errorf("%s: want %q of kubectl %s, got %q", s.title, s.want, strings.Join(s.args, " "), out), err)
		}
		if _, err := fmt.Fprintf(o.Out, "  %5.1f s  %s\n", time.Since(began).Seconds(), s.title); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) loadImages(ctx context.Context, dir string) error {
	server := filepath.Join(dir, "webhook")
	if err := program.Build(ctx, filepath.Join(o.Root, "test/node/smoke/webhook"), server); err != nil {
		return err
	}
	busybox, err := images.Busybox(ctx)
	if err != nil {
		return err
	}
	for _, i := range []image.Image{busybox, {
		Name: webhookImage, User: image.NonRoot, Entrypoint: []string{"/webhook"},
		Content: []image.Item{image.File{Path: "/webhook", Source: server, Mode: 0o755}},
	}} {
		file := filepath.Join(dir, "image.tar")
		if err := i.Save(file); err != nil {
			return err
		}
		if err := o.Load(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// render returns manifests that are applied, with a certificate for the webhook.
func render(text string) ([]byte, error) {
	authority, err := pki.NewAuthority("smoke")
	if err != nil {
		return nil, err
	}
	server, err := authority.Issue(pki.Subject{CommonName: "webhook", Names: []string{"webhook." + Namespace + ".svc"}})
	if err != nil {
		return nil, err
	}
	t, err := template.New("manifests").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{
		"Namespace": Namespace, "Busybox": images.BusyboxName, "Webhook": webhookImage,
		"StorageClass": csi.WaitClassName, "SnapshotClass": csi.ClassName,
		"Certificate":       base64.StdEncoding.EncodeToString(server.Certificate),
		"Key":               base64.StdEncoding.EncodeToString(server.Key),
		"PodSecurity":       "{runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}",
		"ContainerSecurity": "{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}",
		"Authority":         base64.StdEncoding.EncodeToString(authority.Pair().Certificate),
	})
	return out.Bytes(), err
}

func (o Options) kubectl(ctx context.Context, args ...string) (string, error) {
	kubectl := filepath.Join(o.Root, "bin", "controlplane", "kubectl")
	return host.Run(ctx, kubectl, append([]string{"--kubeconfig=" + o.Kubeconfig}, args...)...)
}
