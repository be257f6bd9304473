// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AgentConfiguration configures livecpm-agent.
type AgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// GardenClientConnection is how the agent reaches the garden: with an identity of its seed, that of the gardenlet
	// beside it or that of an extension.
	GardenClientConnection componentbaseconfigv1alpha1.ClientConnectionConfiguration `json:"gardenClientConnection"`
	// SeedClientConnection is how the agent reaches its seed. Without a kubeconfig it uses its service account.
	// +optional
	SeedClientConnection componentbaseconfigv1alpha1.ClientConnectionConfiguration `json:"seedClientConnection"`
	// Gardenlet tells what the agent has to know of the gardenlet beside it.
	Gardenlet Gardenlet `json:"gardenlet"`
	// LeaderElection configures the lease in the seed.
	// +optional
	LeaderElection *componentbaseconfigv1alpha1.LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// Server configures the ports for probes and metrics.
	// +optional
	Server Server `json:"server"`
	// LogLevel is one of debug, info, error. Default: info.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json, text. Default: json.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`
	// Relay configures the pods that carry etcd traffic between the seeds.
	Relay Relay `json:"relay"`
	// Controllers configures the agent's controllers.
	// +optional
	Controllers Controllers `json:"controllers"`
	// DNS configures when a switched record counts as known to everybody.
	// +optional
	DNS DNS `json:"dns"`
	// Etcd configures the work on the etcd cluster that spans both seeds.
	// +optional
	Etcd Etcd `json:"etcd"`
	// Flows configures the other waits in the steps.
	// +optional
	Flows Flows `json:"flows"`
}

// Gardenlet tells what the agent has to know of the gardenlet beside it.
type Gardenlet struct {
	// ConfigurationFile is the path of the gardenlet's own component configuration. The agent deploys components with
	// it, so that they do not roll when the gardenlet takes over.
	ConfigurationFile string `json:"configurationFile"`
	// Source tells where to take the gardenlet's configuration, its image vector overwrites and its access to the
	// garden from. "livecpm-agent adopt" writes them to the configuration file, beside it, and to the kubeconfig of
	// gardenClientConnection, and the agent keeps them up to date. Without it, somebody else provides the files.
	// +optional
	Source *GardenletSource `json:"source,omitempty"`
}

// GardenletSource names the gardenlet in the seed.
type GardenletSource struct {
	// Namespace is the namespace of the gardenlet's Deployment. Default: garden.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Deployment is the name of the gardenlet's Deployment. Default: gardenlet.
	// +optional
	Deployment string `json:"deployment,omitempty"`
	// GardenAccessSecret is the Secret with the token that the gardenlet has requested for the agent, as it does for
	// extensions. Without it, the agent uses the gardenlet's own kubeconfig.
	// +optional
	GardenAccessSecret *SecretReference `json:"gardenAccessSecret,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Namespace is the namespace of the Secret.
	Namespace string `json:"namespace"`
	// Name is the name of the Secret.
	Name string `json:"name"`
}

// Server configures the ports for probes and metrics.
type Server struct {
	// HealthProbes is where /healthz and /readyz are served. Default port: 8081.
	// +optional
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics is where /metrics is served. Default port: 8080.
	// +optional
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// BindAddress is the IP address to listen on; empty for all.
	// +optional
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is the TCP port to listen on.
	Port int `json:"port"`
}

// Address returns address and port in the form that listeners take.
func (e *Endpoint) Address() string { return net.JoinHostPort(e.BindAddress, strconv.Itoa(e.Port)) }

// Relay configures the pods that carry etcd traffic between the seeds.
type Relay struct {
	// Image is the reference of the relay's image. An image "livecpm-relay" in the overwrite of Gardener's image vector
	// takes its place.
	Image string `json:"image"`
	// ImagePullSecrets name Secrets in the seed with the credentials for the registry of that image. The agent copies
	// them into the shoot's namespace for the time of a migration. No two may have the same name. Nodes pull the images
	// of Gardener's own components in these namespaces without any.
	// +optional
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`
}

// Controllers configures the agent's controllers.
type Controllers struct {
	// LiveMigration configures the controller that carries out live migrations, in both roles.
	// +optional
	LiveMigration LiveMigrationController `json:"liveMigration"`
}

// LiveMigrationController configures the controller that carries out live migrations.
type LiveMigrationController struct {
	// ConcurrentSyncs is how many shoots are worked on at the same time. Default: 5.
	// +optional
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is the longest time between two looks at a migration in flight. Default: 15s.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// GatePeriod is the longest time between two proofs, while an action runs, that the gate against the classic
	// migration is in force. Default: 5s.
	// +optional
	GatePeriod *metav1.Duration `json:"gatePeriod,omitempty"`
	// HoldPeriod is the time between two looks at a migration that holds. Default: 5s.
	// +optional
	HoldPeriod *metav1.Duration `json:"holdPeriod,omitempty"`
	// AttemptTimeout bounds one attempt at a step. Default: 20m.
	// +optional
	AttemptTimeout *metav1.Duration `json:"attemptTimeout,omitempty"`
	// RetryBackoff is how long to wait after failed attempts.
	// +optional
	RetryBackoff RetryBackoff `json:"retryBackoff"`
	// StepDeadlines overwrites deadlines of the step table, by condition type.
	// +optional
	StepDeadlines map[string]metav1.Duration `json:"stepDeadlines,omitempty"`
	// AbortOverdue lets the agent ask for an abort by itself when one of the first two steps takes longer than its
	// deadline: before extensions have moved. The other steps call for an operator. Default: false.
	// +optional
	AbortOverdue *bool `json:"abortOverdue,omitempty"`
	// Workers permits live migrations of shoots with workers. Both agents of a migration have to permit them. A shoot
	// can refuse for itself (the annotation migration.gardener.cloud/live-migrate-with-workers). Default: true.
	// +optional
	Workers *bool `json:"workers,omitempty"`
	// Probe lets the agent probe the connection to the other seed before a migration begins, and take part in the
	// probes of other agents. The connection is not probed where one of the two agents says false. Default: true.
	// +optional
	Probe *bool `json:"probe,omitempty"`
	// AccessControlExtensions are the types of extensions that restrict who may reach a shoot's kube-apiserver through
	// the ingress gateway of its seed. They are in force in the destination before anybody can reach its
	// kube-apiserver, and in the source until nobody can any more. In between they work in both seeds, so list only
	// such as manage nothing outside of their seed. Both agents of a migration need the same list. Default: acl.
	// +optional
	AccessControlExtensions []string `json:"accessControlExtensions"`
}

// RetryBackoff is an exponential backoff.
type RetryBackoff struct {
	// Base is the wait after the first failure. Default: 1s.
	// +optional
	Base *metav1.Duration `json:"base,omitempty"`
	// Max is the longest wait. Default: 1m.
	// +optional
	Max *metav1.Duration `json:"max,omitempty"`
}

// DNS configures when a switched record counts as known to everybody.
type DNS struct {
	// Margin is waited for after the record's TTL has passed. Default: 30s.
	// +optional
	Margin *metav1.Duration `json:"margin,omitempty"`
	// ShortTTL is the TTL that the source gives the shoot's DNS records when a migration begins, so that caches forget
	// its address sooner once they lead to the destination. Records with a shorter one keep it. The longer one of both
	// agents counts; zero in one of them leaves the records as they are. Default: 30s.
	// +optional
	ShortTTL *metav1.Duration `json:"shortTTL,omitempty"`
	// Resolvers are DNS servers ("host:port") that must answer with the new address before the TTL starts to count.
	// When empty, the authoritative servers of the record's zone are asked.
	// +optional
	Resolvers []string `json:"resolvers,omitempty"`
}

// Etcd configures the work on the etcd cluster that spans both seeds.
type Etcd struct {
	// JoinTimeout bounds one attempt to join the members of the destination. Default: 15m.
	// +optional
	JoinTimeout *metav1.Duration `json:"joinTimeout,omitempty"`
}

// Flows configures the other waits in the steps.
type Flows struct {
	// PollInterval is the pause between two looks at something that is expected to change soon. Default: 2s.
	// +optional
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`
	// RolloutTimeout bounds one attempt to wait for a component to become ready. Default: 10m.
	// +optional
	RolloutTimeout *metav1.Duration `json:"rolloutTimeout,omitempty"`
	// DrainTimeout is how long the source's kube-apiserver may keep connections after the etcds have moved, unless its
	// ingress gateway has drained them before. It is stopped then in any case. Default: 1m.
	// +optional
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// GatewayDrain is how long the source's kube-apiserver continues after its ingress gateway was seen to take no new
	// connections, if TLS ends at the gateway (IstioTLSTermination). It must not be less than the drain time of Envoy,
	// which Istio sets to 45s: what the gateway still keeps when the kube-apiserver stops is answered with 503. The
	// last etcd members join as long, and 10s more, after the source was asked to let its clients leave. Default: 1m.
	// +optional
	GatewayDrain *metav1.Duration `json:"gatewayDrain,omitempty"`
	// ShootStateLead is how far in the future the ShootState's timestamp is set, which keeps gardenlets from
	// overwriting it during the migration. Default: 24h.
	// +optional
	ShootStateLead *metav1.Duration `json:"shootStateLead,omitempty"`
}
