// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessMode is how a location may be used.
// +kubebuilder:validation:Enum=ReadWrite;ReadOnly
type AccessMode string

// The access modes.
const (
	AccessModeReadWrite AccessMode = "ReadWrite"
	AccessModeReadOnly  AccessMode = "ReadOnly"
)

// BackupStorageLocationSpec says where archives are stored. Exactly one provider is
// set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.filesystem) ? 1 : 0) + (has(self.s3) ? 1 : 0) + (has(self.plugin) ? 1 : 0) == 1",message="set exactly one of filesystem, s3 and plugin"
type BackupStorageLocationSpec struct {
	// default makes this the location of Backups that do not name one.
	// +optional
	Default bool `json:"default,omitempty"`

	// accessMode is ReadWrite, or ReadOnly to refuse new backups.
	// +optional
	// +default="ReadWrite"
	AccessMode AccessMode `json:"accessMode,omitempty"`

	// prefix is prepended to every key, which lets several clusters share one bucket. It
	// consists of path segments, separated by "/".
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9_.-]+(/[a-zA-Z0-9_.-]+)*)?$`
	// +kubebuilder:validation:XValidation:rule="self.split('/').all(part, part != '.' && part != '..')",message="a part of the path may not be \".\" or \"..\""
	Prefix string `json:"prefix,omitempty"`

	// filesystem stores archives in a directory below the operator's store root.
	// +optional
	Filesystem *FilesystemLocation `json:"filesystem,omitempty"`

	// s3 stores archives in a bucket of an S3 service.
	// +optional
	S3 *S3Location `json:"s3,omitempty"`

	// plugin stores archives in an ObjectStore that a Plugin provides, for example one of
	// Velero's.
	// +optional
	Plugin *PluginLocation `json:"plugin,omitempty"`

	// checkInterval is the time between two checks of the location, for example "10m". Unset
	// means that of the operator (--location-check-interval). With "0s", the location is
	// checked only when it is created or changed. In any case, one that is Full or
	// Unavailable is checked at least as often as the operator's flag says.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="must be 0s, or from 1s to 720h"
	CheckInterval *metav1.Duration `json:"checkInterval,omitempty"`

	// sync limits how many of the backups that other clusters stored here get a Backup in
	// this cluster, and how often the operator looks for them.
	// +optional
	Sync *LocationSync `json:"sync,omitempty"`
}

// defaultMaxImportedBackups is how many backups are imported from a location that sets no
// limit. With at most 8 KiB of foreign content each, that is 16 MiB of etcd and of
// the operator's memory.
const defaultMaxImportedBackups = 2000

// LocationSync selects the stored backups of other clusters that get a Backup in this
// cluster. A backup without one can still be restored and destroyed by its name.
type LocationSync struct {
	// disabled turns the import off. Imported Backups stay, and those that are created
	// with spec.importedFrom are still completed.
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// maxBackups is how many imported Backups the location may have: the ones that were
	// stored last, by the time of the store. Older ones make way for newer ones; Backups
	// of this cluster do not count. The default is 2000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxBackups *int32 `json:"maxBackups,omitempty"`

	// interval is the time from the end of a sync to the next one, for example "1h". Unset
	// means that of the operator (--backup-sync-interval). "0s" turns the import off, as
	// disabled does.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="must be 0s, or from 1s to 720h"
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// MaxImportedBackups returns how many imported Backups the location may have.
func (s *BackupStorageLocationSpec) MaxImportedBackups() int {
	if s.Sync == nil || s.Sync.MaxBackups == nil {
		return defaultMaxImportedBackups
	}
	return int(*s.Sync.MaxBackups)
}

// IsImportDisabled reports whether the import from the location is disabled.
func (s *BackupStorageLocationSpec) IsImportDisabled() bool {
	return s.Sync != nil && (s.Sync.Disabled || s.Sync.Interval != nil && s.Sync.Interval.Duration == 0)
}

// SyncInterval returns the time between two syncs of the location, which are also needed without an import: they notice
// which backups were removed from it.
func (s *BackupStorageLocationSpec) SyncInterval(fallback time.Duration) time.Duration {
	if s.Sync == nil || s.Sync.Interval == nil || s.Sync.Interval.Duration == 0 {
		return fallback
	}
	return s.Sync.Interval.Duration
}

// FilesystemLocation is a directory below the operator's store root (--store-root).
type FilesystemLocation struct {
	// path is relative to the store root and cannot leave it. Empty means the root itself.
	// The operator creates a missing directory.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9_.-]+(/[a-zA-Z0-9_.-]+)*)?$`
	// +kubebuilder:validation:XValidation:rule="self.split('/').all(part, part != '.' && part != '..')",message="a part of the path may not be \".\" or \"..\""
	Path string `json:"path,omitempty"`
}

// S3Location is a bucket of an S3 service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.profile) || has(self.credentialsSecret)",message="profile needs a credentialsSecret, whose file has the profile"
// +kubebuilder:validation:XValidation:rule="!has(self.caCert) || !has(self.insecureSkipTLSVerify) || !self.insecureSkipTLSVerify",message="caCert has no effect with insecureSkipTLSVerify: set one of them"
type S3Location struct {
	// bucket is the name of the bucket. It must exist.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// endpoint is the URL of the service, for example https://s3.example.com.
	// Empty means AWS.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(https?://[^/@?#]+/?)?$`
	Endpoint string `json:"endpoint,omitempty"`

	// region is the region of the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`

	// forcePathStyle puts the bucket into the path instead of the host name.
	// +optional
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`

	// caCert is a PEM bundle that verifies the certificate of the service.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CACert []byte `json:"caCert,omitempty"`

	// insecureSkipTLSVerify accepts any certificate of the service. Whoever can intercept
	// the connection can then read and replace backups: use it for tests only.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`

	// serverSideEncryption is the encryption that is requested for each object. Unset leaves
	// it to the bucket. Objects that are stored already keep theirs.
	// +optional
	ServerSideEncryption *ServerSideEncryption `json:"serverSideEncryption,omitempty"`

	// checksumAlgorithm is how the service detects content that was damaged on its way: MD5
	// (the header Content-MD5); CRC32, CRC32C, SHA1 or SHA256, which the service also stores
	// with the object; or None, for services that support no other. The default is MD5.
	// +optional
	ChecksumAlgorithm ChecksumAlgorithm `json:"checksumAlgorithm,omitempty"`

	// credentialsSecret is a Secret in the namespace of the location. It has either the
	// keys accessKeyID and secretAccessKey, and optionally sessionToken; or, as the Secrets
	// of Velero, the key cloud with a credentials file of the AWS tools. Unset means the
	// operator's own identity (environment, instance or web identity).
	// +optional
	CredentialsSecret *SecretReference `json:"credentialsSecret,omitempty"`

	// profile is the profile of the credentials file in the Secret. Empty means "default".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.@+=,:/-]*$`
	Profile string `json:"profile,omitempty"`
}

// ChecksumAlgorithm is the algorithm of the checksums that an S3 service verifies.
// +kubebuilder:validation:Enum=MD5;CRC32;CRC32C;SHA1;SHA256;None
type ChecksumAlgorithm string

// EncryptionAlgorithm is how an S3 service encrypts objects, in its own words.
// +kubebuilder:validation:Enum=AES256;aws:kms
type EncryptionAlgorithm string

// The algorithms of encryption.
const (
	EncryptionAlgorithmAES256 EncryptionAlgorithm = "AES256"
	EncryptionAlgorithmKMS    EncryptionAlgorithm = "aws:kms"
)

// ServerSideEncryption is how an S3 service encrypts objects.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyID) || self.algorithm == 'aws:kms'",message="kmsKeyID needs the algorithm aws:kms"
type ServerSideEncryption struct {
	// algorithm is AES256 (SSE-S3: the service has the keys) or aws:kms (SSE-KMS: a key
	// management service has them).
	// +required
	Algorithm EncryptionAlgorithm `json:"algorithm,omitempty"`

	// kmsKeyID is the key of aws:kms: its ID, ARN or alias, for example alias/backups. Empty
	// means the default key of the service.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:/_.-]*$`
	KMSKeyID string `json:"kmsKeyID,omitempty"`
}

// PluginLocation is a bucket of an ObjectStore that a Plugin provides.
type PluginLocation struct {
	// provider is the registered name of the ObjectStore, for example velero.io/aws. A
	// ready Plugin must provide it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9_.-]+(/[a-zA-Z0-9_.-]+)?$`
	Provider string `json:"provider,omitempty"`

	// bucket is what the provider calls a bucket or container. It must exist.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	Bucket string `json:"bucket,omitempty"`

	// config is the configuration of the ObjectStore; see its documentation for the keys.
	// The bucket, the prefix of the location, caCert and the path of the credentials are
	// added. Do not put secrets here.
	// +optional
	Config ProviderConfig `json:"config,omitempty"`

	// caCert is a PEM bundle that verifies the certificate of the service.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CACert []byte `json:"caCert,omitempty"`

	// credential is the key of a Secret in the namespace of the location. The ObjectStore
	// gets its content as a file. Unset means the credentials in the environment of the
	// Plugin.
	// +optional
	Credential *SecretKeyReference `json:"credential,omitempty"`
}

// ProviderConfig is the configuration of an ObjectStore, as keys and values.
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[a-zA-Z0-9_.-]{1,128}$'))",message="a key consists of at most 128 letters, digits, '-', '_' and '.'"
// +kubebuilder:validation:XValidation:rule="!('bucket' in self) && !('prefix' in self) && !('caCert' in self) && !('credentialsFile' in self)",message="bucket, prefix, caCert and credentialsFile are set by Grapnel: use the fields bucket, prefix of the location, caCert and credential"
type ProviderConfig map[string]ParameterValue

// SecretKeyReference names one key of a Secret in the namespace of the object that
// refers to it.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// LocationPhase summarizes the conditions of a location in one word.
// +kubebuilder:validation:Enum=Available;Full;Unavailable
type LocationPhase string

// The phases of a location.
const (
	LocationPhaseAvailable LocationPhase = "Available"
	// LocationPhaseFull means that backups can be restored and deleted, but there is no
	// space for new ones.
	LocationPhaseFull        LocationPhase = "Full"
	LocationPhaseUnavailable LocationPhase = "Unavailable"
)

// BackupStorageLocationStatus is the observed state of a location.
type BackupStorageLocationStatus struct {
	// conditions are authoritative; see the package comment.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about; -1 until the operator
	// has reconciled the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase summarizes the conditions.
	// +optional
	Phase LocationPhase `json:"phase,omitempty"`

	// message says in one sentence what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// lastValidationTime is when the location was last checked.
	// +optional
	// +nullable
	LastValidationTime *metav1.Time `json:"lastValidationTime,omitempty"`

	// putIfAbsent reports whether the store can refuse to overwrite an object. A store
	// that cannot leaves a short moment in which two clusters may take the same backup
	// name.
	// +optional
	PutIfAbsent *bool `json:"putIfAbsent,omitempty"`
}

// BackupStorageLocation is a location in which archives are stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gsl
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Default",type=boolean,JSONPath=`.spec.default`
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.spec.accessMode`
// +kubebuilder:printcolumn:name="Checked",type=date,JSONPath=`.status.lastValidationTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type BackupStorageLocation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where archives are stored.
	// +required
	Spec BackupStorageLocationSpec `json:"spec,omitempty"`

	// status is the observed state of the location.
	// +optional
	// +default={"observedGeneration":-1}
	Status BackupStorageLocationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the location.
func (l *BackupStorageLocation) GetConditions() []metav1.Condition { return l.Status.Conditions }

// SetConditions replaces the conditions of the location.
func (l *BackupStorageLocation) SetConditions(c []metav1.Condition) { l.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the location.
func (l *BackupStorageLocation) ObservedGeneration() *int64 { return &l.Status.ObservedGeneration }

// BackupStorageLocationList is a list of BackupStorageLocations.
//
// +kubebuilder:object:root=true
type BackupStorageLocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupStorageLocation `json:"items"`
}
