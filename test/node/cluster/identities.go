// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/grapnel-dev/grapnel/test/node/pki"
)

const adminName = "admin"

// identities are who needs a certificate, by the names of the files. The names of users
// and groups are those that Kubernetes' own roles are bound to.
func identities() map[string]pki.Subject {
	own := net.ParseIP(bridgeAddress)
	return map[string]pki.Subject{
		"etcd": {CommonName: "etcd", Addresses: []net.IP{own}},
		"kube-apiserver": {
			CommonName: "kube-apiserver",
			Names: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain,
			},
			Addresses: []net.IP{net.IPv4(127, 0, 0, 1), own, net.ParseIP(apiService)},
		},
		"kubelet-client": {CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}},
		"kubelet": {
			CommonName: "system:node:" + nodeName, Organizations: []string{"system:nodes"},
			Names: []string{nodeName}, Addresses: []net.IP{own},
		},
		"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":              {CommonName: "system:kube-proxy"},
		// It is for this cluster only, so there is no role that is made for it.
		networkPolicies:   {CommonName: networkPolicies, Organizations: []string{"system:masters"}},
		csiIdentity:       {CommonName: csiIdentity, Organizations: []string{"system:masters"}},
		"service-account": {CommonName: "service-account"},
		adminName:         {CommonName: adminName, Organizations: []string{"system:masters"}},
	}
}

// writeIdentities makes an authority, all certificates, and the kubeconfigs of clients.
func (l layout) writeIdentities() error {
	authority, err := pki.NewAuthority("grapnel-e2e")
	if err != nil {
		return err
	}
	if err := authority.Pair().Write(l.pki(), "ca"); err != nil {
		return err
	}
	for name, subject := range identities() {
		pair, err := authority.Issue(subject)
		if err != nil {
			return err
		}
		if err := pair.Write(l.pki(), name); err != nil {
			return err
		}
		path := filepath.Join(l.State, name+".kubeconfig")
		switch name {
		case adminName:
			path = l.kubeconfig()
		case "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", networkPolicies, csiIdentity:
		default:
			continue
		}
		if err := writeKubeconfig(path, authority.Pair().Certificate, pair); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig that is complete: it may be copied elsewhere. A file
// that is there is replaced, whatever its mode.
func writeKubeconfig(path string, authority []byte, pair pki.Pair) error {
	const name = "grapnel-e2e"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: serverURL(), CertificateAuthorityData: authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(path+".new"))
	}
	return nil
}
