// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/rand/v2"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// seed makes the content of the objects; another one makes others of the same
// sizes.
const seed = 20

// kind is one kind of the mix.
type kind struct {
	// collection is the path of all objects of the kind.
	collection string
	// prefix starts the names.
	prefix string
	// share is how many of 20 objects are of the kind.
	share int
	build func(meta metav1.ObjectMeta, r *rand.Rand) client.Object
}

func kinds() []kind {
	return []kind{
		{"/api/v1/configmaps", "config", 5, configMap},
		{"/api/v1/secrets", "secret", 5, secret},
		{"/api/v1/services", "service", 2, service},
		{"/api/v1/serviceaccounts", "account", 2, serviceAccount},
		{"/apis/rbac.authorization.k8s.io/v1/roles", "role", 1, role},
		{"/apis/rbac.authorization.k8s.io/v1/rolebindings", "binding", 1, roleBinding},
		{"/apis/apps/v1/deployments", "app", 3, deployment},
		{"/apis/batch/v1/cronjobs", "job", 1, cronJob},
	}
}

// Collections returns the URL paths of the kinds of the mix.
func Collections() []string {
	var out []string
	for _, k := range kinds() {
		out = append(out, k.collection)
	}
	return out
}

// Companions returns the URL paths of the objects that come with the mix: the
// namespaces, and the address that the API server notes for each Service. Both are
// cluster-scoped.
func Companions() []string {
	return []string{"/api/v1/namespaces", "/apis/networking.k8s.io/v1/ipaddresses"}
}

// NamespaceName returns the name of the i-th namespace.
func NamespaceName(i int) string { return fmt.Sprintf("bench-%04d", i) }

// Namespace returns the i-th namespace.
func Namespace(i int) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: NamespaceName(i)}}
}

// addressedNamespaces is the number of namespaces whose Services have addresses; the others are
// headless. The API server counts all addresses whenever it assigns one: with 30,000 Services, that
// would be all that is measured.
const addressedNamespaces = 300

// Object returns the i-th object of a mix that is spread over namespaces. Every
// namespace gets the same mix.
func Object(i, namespaces int) client.Object {
	within := i / namespaces
	k := kindOf(within)
	meta := metav1.ObjectMeta{
		Namespace: NamespaceName(i % namespaces),
		Name:      fmt.Sprintf("%s-%05d", k.prefix, within),
		Labels: map[string]string{
			"app.kubernetes.io/name":    fmt.Sprintf("%s-%d", k.prefix, within%7),
			"app.kubernetes.io/part-of": "bench",
		},
	}
	object := k.build(meta, rand.New(rand.NewPCG(seed, uint64(i))))
	if service, ok := object.(*corev1.Service); ok && i%namespaces >= addressedNamespaces {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return object
}

// Path returns the URL path of the collection, in a namespace, that the i-th
// object of such a mix belongs to.
func Path(i, namespaces int, namespace string) string {
	collection := kindOf(i / namespaces).collection
	return path.Dir(collection) + "/namespaces/" + namespace + "/" + path.Base(collection)
}

// kindOf returns the kind of an object by its number within its namespace.
func kindOf(within int) kind {
	all := kinds()
	total := 0
	for _, k := range all {
		total += k.share
	}
	place := within % total
	for _, k := range all {
		if place < k.share {
			return k
		}
		place -= k.share
	}
	panic("load: the shares do not add up")
}

// LargeSecret returns the i-th of Secrets whose data is as large as the API
// server takes it, and that no compression makes smaller.
func LargeSecret(i int, namespace string) client.Object {
	const size = corev1.MaxSecretSize
	data := make([]byte, size)
	var key [32]byte
	key[0], key[1], key[2] = seed, byte(i), byte(i>>8)
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("large-%04d", i)},
		Data:       map[string][]byte{"data": data},
	}
}
