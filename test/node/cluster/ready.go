// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/grapnel-dev/grapnel/test/node/host"
)

// await asks again and again until there is no error, a process has ended, or ctx ends.
// Then the error has the end of the logs of those who should have seen to it.
func (p *processes) await(ctx context.Context, what string, responsible []string, ask func(context.Context) error) error {
	const (
		pause    = 100 * time.Millisecond
		patience = 20 * time.Second // For one answer.
	)
	for {
		one, cancel := context.WithTimeout(ctx, patience)
		err := ask(one)
		cancel()
		if err == nil {
			return nil
		}
		if ended := p.check(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w%s", what, ctx.Err(), err, p.layout.tail(responsible...))
		case <-time.After(pause):
		}
	}
}

func (l layout) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", l.kubeconfig(), err)
	}
	// See processes.start: a proxy is not for this cluster.
	config.Proxy = noProxy
	return kubernetes.NewForConfig(config)
}

func noProxy(*http.Request) (*url.URL, error) {
	return nil, nil
}

func (p *processes) awaitAPIServer(ctx context.Context) error {
	c, err := p.layout.client()
	if err != nil {
		return err
	}
	return p.await(ctx, "the API server", []string{etcd, apiServer}, func(ctx context.Context) error {
		return c.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// applyManifests makes what every cluster has, once the API server has made what it makes
// itself a moment after it is ready.
func (p *processes) applyManifests(ctx context.Context) error {
	l := p.layout
	c, err := l.client()
	if err != nil {
		return err
	}
	err = p.await(ctx, "the system's namespace and priorities", []string{apiServer}, func(ctx context.Context) error {
		_, err := c.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = c.SchedulingV1().PriorityClasses().Get(ctx, "system-cluster-critical", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	_, err = host.Run(ctx, l.kubectl(), "--kubeconfig="+l.kubeconfig(), "apply", "--server-side", "-f", filepath.Join(l.State, "manifests.yaml"))
	return err
}

// awaitNode waits until pods can run: the node takes them, and has what is mounted into
// each.
func (p *processes) awaitNode(ctx context.Context) error {
	c, err := p.layout.client()
	if err != nil {
		return err
	}
	return p.await(ctx, "the node", []string{controllerManager, containerd, kubelet}, func(ctx context.Context) error {
		node, err := c.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := nodeReady(node); err != nil {
			return err
		}
		_, err = c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = c.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// nodeReady fails for a node that takes no pods.
func nodeReady(node *corev1.Node) error {
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node still has the taint %s", node.Spec.Taints[0].Key)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	return errors.New("the node has not said yet whether it is ready")
}

// awaitNames waits for the name server, which shows, too, that pods run.
func (p *processes) awaitNames(ctx context.Context) error {
	c, err := p.layout.client()
	if err != nil {
		return err
	}
	err = p.await(ctx, "the name server", []string{kubelet, containerd, proxy}, func(ctx context.Context) error {
		d, err := c.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas == 0 {
			err = errors.New("its pod is not ready")
		}
		return err
	})
	if err == nil {
		return nil
	}
	// What Kubernetes reports about the pod is included, if it is still available.
	l := p.layout
	said, _ := host.Run(context.WithoutCancel(ctx), l.kubectl(), "--kubeconfig="+l.kubeconfig(), "--request-timeout=5s",
		"describe", "pods", "-n", metav1.NamespaceSystem)
	return fmt.Errorf("%w\n--- its pod\n%s", err, lastLines(said, 30))
}
