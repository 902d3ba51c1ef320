// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newLocationCommand returns the command for BackupStorageLocations.
func (a *app) newLocationCommand() *cobra.Command {
	newObject := func() objectAndList {
		return objectAndList{&v1alpha1.BackupStorageLocation{}, &v1alpha1.BackupStorageLocationList{}}
	}
	group := newGroupCommand("location", "Create, show and delete BackupStorageLocations",
		a.newCreateLocationCommand(),
		a.newGetCommand("BackupStorageLocation", "backupstoragelocations"),
		a.newDescribeObjectCommand("BackupStorageLocation", newObject),
		a.newDeleteCommand("BackupStorageLocation", "what is stored there stays", newObject))
	group.Aliases = []string{"backup-location"}
	return group
}

// The providers that are built in; others are the names of ObjectStores of Plugins.
const (
	providerFilesystem = "filesystem"
	providerS3         = "s3"
)

// locationFlags are the flags for the spec of a location.
type locationFlags struct {
	spec                               v1alpha1.BackupStorageLocationSpec
	provider, bucket, path, accessMode string
	region, endpoint, caCert           string
	forcePathStyle                     bool
	config                             map[string]string
	credential, profile                string
}

func (f *locationFlags) bindFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.provider, "provider", "", "filesystem, s3, or the name of an ObjectStore of a Plugin, for example velero.io/azure")
	flags.StringVar(&f.path, "path", "", "filesystem: directory below the operator's --store-root")
	flags.StringVar(&f.bucket, "bucket", "", "s3 and plugins: name of the bucket")
	flags.StringVar(&f.region, "region", "", "s3: region of the bucket")
	flags.StringVar(&f.endpoint, "endpoint", "", "s3: URL of the service (default AWS)")
	flags.BoolVar(&f.forcePathStyle, "force-path-style", false, "s3: put the bucket into the path instead of the host name")
	flags.StringVar(&f.caCert, "cacert", "", "s3: file with the certificates (PEM) that verify the service")
	flags.StringToStringVar(&f.config, "config", nil, "plugins: configuration, KEY=VALUE")
	flags.StringVar(&f.credential, "credential", "", "s3: name of a Secret with accessKeyID and secretAccessKey, or with Velero's key cloud; plugins: SECRET=KEY")
	flags.StringVar(&f.profile, "profile", "", "s3: profile of the credentials file in a Secret with the key cloud (default \"default\")")
	flags.StringVar(&f.spec.Prefix, "prefix", "", "prefix of all keys, with which clusters can share a bucket")
	flags.StringVar(&f.accessMode, "access-mode", "", "ReadWrite or ReadOnly (default ReadWrite)")
	flags.BoolVar(&f.spec.Default, "default", false, "the location of Backups that name none")
}

// newSpec returns the spec that the flags describe.
func (f *locationFlags) newSpec() (v1alpha1.BackupStorageLocationSpec, error) {
	spec := *f.spec.DeepCopy()
	spec.AccessMode = v1alpha1.AccessMode(f.accessMode)
	switch f.provider {
	case "":
		return spec, errors.New("set --provider to filesystem, s3 or the name of an ObjectStore of a Plugin")
	case providerFilesystem:
		spec.Filesystem = &v1alpha1.FilesystemLocation{Path: f.path}
	case providerS3:
		spec.S3 = &v1alpha1.S3Location{Bucket: f.bucket, Region: f.region, Endpoint: f.endpoint, ForcePathStyle: f.forcePathStyle, Profile: f.profile}
		if f.credential != "" {
			spec.S3.CredentialsSecret = &v1alpha1.SecretReference{Name: f.credential}
		}
		if f.caCert == "" {
			break
		}
		var err error
		if spec.S3.CACert, err = os.ReadFile(f.caCert); err != nil {
			return spec, fmt.Errorf("--cacert: %w", err)
		}
	default:
		spec.Plugin = &v1alpha1.PluginLocation{Provider: f.provider, Bucket: f.bucket}
		for key, value := range f.config {
			if spec.Plugin.Config == nil {
				spec.Plugin.Config = v1alpha1.ProviderConfig{}
			}
			spec.Plugin.Config[key] = v1alpha1.ParameterValue(value)
		}
		if f.credential == "" {
			break
		}
		secret, key, found := strings.Cut(f.credential, "=")
		if !found {
			return spec, fmt.Errorf("--credential: %q is not SECRET=KEY", f.credential)
		}
		spec.Plugin.Credential = &v1alpha1.SecretKeyReference{Name: secret, Key: key}
	}
	return spec, nil
}

// newCreateLocationCommand returns the command that creates a location.
func (a *app) newCreateLocationCommand() *cobra.Command {
	var location locationFlags
	var flags createFlags
	command := &cobra.Command{
		Use: "create NAME --provider PROVIDER", Short: "Create a BackupStorageLocation", Args: cobra.ExactArgs(1),
		Example: "  kubectl grapnel location create main --provider s3 --bucket backups --region eu-central-1 --credential bucket-keys --default",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			spec, err := location.newSpec()
			if err != nil {
				return err
			}
			_, err = a.createObject(cmd.Context(), c, &v1alpha1.BackupStorageLocation{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: args[0]}, Spec: spec,
			}, flags)
			return err
		},
	}
	location.bindFlags(command)
	flags.bindFlags(command)
	return command
}
