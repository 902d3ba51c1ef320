// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
)

const (
	defaultNamespace  = "grapnel-system"
	namespaceVariable = "GRAPNEL_NAMESPACE"
)

// connection is how a command reaches the cluster.
type connection struct {
	client.WithWatch
	config    *rest.Config
	namespace string
	downloads *download.Client
}

// connect returns a connection with the flags. It does not contact the cluster yet.
func (a *app) connect() (*connection, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server limits requests itself
	config.UserAgent = "kubectl-grapnel/" + a.version
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, admissionv1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: newStaticMapper(scheme)})
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(*a.flags.Namespace, os.Getenv(namespaceVariable), defaultNamespace)
	return &connection{
		WithWatch: c, config: config, namespace: namespace,
		downloads: &download.Client{Client: c, Config: config, Namespace: namespace},
	}, nil
}

// newStaticMapper returns a mapper for Grapnel's kinds and those of an installation, which saves the requests of a
// discovery.
func newStaticMapper(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		scope := meta.RESTScopeNamespace
		if kind == "Plugin" {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), scope)
	}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		corev1.SchemeGroupVersion.WithKind("Event"), corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		mapper.Add(admissionv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	return mapper
}

// getObject reads an object by name. If it does not exist, the error has the nearest names.
func (c *connection) getObject(ctx context.Context, kind, name string, object client.Object, list client.ObjectList) error {
	err := c.Get(ctx, c.objectKey(name), object)
	if !apierrors.IsNotFound(err) || !isObjectMissing(err) {
		return err
	}
	names, listErr := c.listNames(ctx, list)
	if listErr != nil {
		return err
	}
	namespace := c.namespace
	if kind == "Plugin" {
		namespace = ""
	}
	return missingError(kind, namespace, name, names)
}

// objectKey returns the key of an object; that of a Plugin has no namespace.
func (c *connection) objectKey(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.namespace, Name: name}
}

// listNames returns the names of all objects of a kind.
func (c *connection) listNames(ctx context.Context, list client.ObjectList) ([]string, error) {
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err == nil {
			names = append(names, accessor.GetName())
		}
		return err
	})
	return names, err
}

// isObjectMissing reports whether an object is missing rather than its kind: the API server answers both with 404.
func isObjectMissing(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != ""
}

// missingError says, unless namespace is empty with the namespace, that an object does not exist, and which ones have similar names.
func missingError(kind, namespace, name string, names []string) error {
	const most = 3
	near := slices.DeleteFunc(slices.Clone(names), func(other string) bool {
		return !strings.Contains(other, name) && !strings.Contains(name, other) && editDistance(name, other) > max(len(name)/3, 1)
	})
	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(cmp.Compare(editDistance(name, a), editDistance(name, b)), cmp.Compare(a, b))
	})
	text := fmt.Sprintf("there is no %s %q", kind, name)
	if namespace != "" {
		text += " in namespace " + namespace
	}
	switch {
	case len(near) > 0:
		text += "; did you mean " + strings.Join(near[:min(len(near), most)], ", ") + "?"
	case len(names) == 0 && namespace != "":
		text += ", and no other one; is it the right namespace and context?"
	}
	return errors.New(text)
}

// editDistance returns how many characters must be inserted, removed or replaced to make b of a (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// explainError returns the text of an error with what to do about it.
func (a *app) explainError(ctx context.Context, err error) string {
	text := err.Error()
	if _, isExplained := errors.AsType[*exitError](err); isExplained {
		return text
	}
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && !isObjectMissing(err):
		return fmt.Sprintf("the cluster of context %s has no Grapnel, or an older version: install it, choose another context with --context, or run doctor", a.contextName())
	case apierrors.IsForbidden(err):
		return text + "\nAsk an administrator for one of the roles grapnel-viewer, grapnel-backup-operator, grapnel-restore-operator and grapnel-admin."
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the cluster of context %s does not accept your credentials: log in again", a.contextName())
	case clientcmd.IsEmptyConfig(err):
		return "there is no kubeconfig: set --kubeconfig or the variable KUBECONFIG"
	}
	if _, isNetwork := errors.AsType[net.Error](err); isNetwork {
		return fmt.Sprintf("the API server of context %s cannot be reached: %s", a.contextName(), text)
	}
	return text
}

// contextName returns the name of the context in use.
func (a *app) contextName() string {
	if name := *a.flags.Context; name != "" {
		return name
	}
	raw, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil || raw.CurrentContext == "" {
		return "(none)"
	}
	return raw.CurrentContext
}
