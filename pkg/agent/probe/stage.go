// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
)

const (
	// Name begins the names of a probe's namespaces, and is the name of the Secret in them.
	Name = "livecpm-probe"
	// LabelProbe marks the namespaces of probes.
	LabelProbe = "livecpm.gardener.cloud/probe"
	// annotationPeer names, on such a namespace, the other seed.
	annotationPeer = "livecpm.gardener.cloud/probe-of"

	// etcdRole and ordinal name the etcd member whose place the answerer takes.
	etcdRole, ordinal = v1beta1constants.ETCDRoleMain, 0
	healthPort        = 8081
	mountPathTLS      = "/etc/livecpm-relay/tls"
	keyAuthority      = "ca.crt"

	// validity is how long the certificates of a round are valid.
	validity = 24 * time.Hour
	// dialTimeout bounds the way to the relay of this seed.
	dialTimeout = 10 * time.Second
)

// NamespaceOf returns the namespace of probes between the seeds. It is the same in both, as that of a shoot is: relays
// accept names of their own namespace only.
func NamespaceOf(one, other string) string {
	if other < one {
		one, other = other, one
	}
	sum := sha256.Sum256([]byte(one + "/" + other))
	return Name + "-" + hex.EncodeToString(sum[:4])
}

// stage is what a probe deploys in the agent's own seed.
type stage struct {
	*Prober
	peer     string
	values   exposure.Values
	exposure exposure.Interface
	ca, leaf *secretsutils.Certificate
	// needs are what room is looked for in this seed for.
	needs []seedfacts.Need
	// images are those that the nodes of this seed have to be able to pull.
	images []image
}

// newStage makes the certificates of a round.
func newStage(p *Prober, peer string, values exposure.Values) (*stage, error) {
	caConfig, config := exposure.CertificateConfigs(values.Namespace, values.Domain)
	caConfig.Validity, config.Validity = new(validity), new(validity)
	ca, err := caConfig.GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("failed to make the authority of a probe: %w", err)
	}
	config.SigningCA = ca
	// The answerer shows the same certificate as the relay, by the names of the etcd member.
	config.DNSNames = append(config.DNSNames, kubernetesutils.DNSNamesForService(
		naming.PodName(etcdRole, ordinal)+"."+naming.PeerServiceName(etcdRole), values.Namespace)...)
	leaf, err := config.GenerateCertificate()
	if err != nil {
		return nil, err
	}
	return &stage{Prober: p, peer: peer, values: values, ca: ca, leaf: leaf,
		exposure: exposure.New(p.options.Log, p.options.SeedClient, values)}, nil
}

// authority is what the other side knows this one by.
func (s *stage) authority() string { return string(s.ca.CertificatePEM) }

func (s *stage) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.values.Namespace, Name: name,
		Labels: map[string]string{exposure.LabelKey: exposure.LabelValue}}
}

func (s *stage) namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.values.Namespace, Labels: NamespaceLabels(),
		Annotations: map[string]string{annotationPeer: s.peer}}}
}

// NamespaceLabels returns the labels of a probe's namespace. By the role of an extension, gardenlet and resource
// manager make the same network policies in it as in the namespace of a shoot, and nobody takes it for one.
func NamespaceLabels() map[string]string {
	return map[string]string{LabelProbe: "true", exposure.LabelKey: exposure.LabelValue,
		v1beta1constants.GardenRole: v1beta1constants.GardenRoleExtension}
}

// open makes the namespace. One that is left of an earlier probe goes first.
func (s *stage) open(ctx context.Context) error {
	return s.until(ctx, readyPatience, func(ctx context.Context) error {
		namespace := s.namespace()
		err := s.options.SeedClient.Create(ctx, namespace)
		if !apierrors.IsAlreadyExists(err) {
			if err != nil {
				return fmt.Errorf("failed to create namespace %s: %w", namespace.Name, err)
			}
			return nil
		}
		if err := s.close(ctx); err != nil {
			return err
		}
		return fmt.Errorf("namespace %s of an earlier probe is not gone yet", namespace.Name)
	})
}

// close deletes the namespace, and with it all that the probe has made.
func (s *stage) close(ctx context.Context) error {
	namespace := s.namespace()
	if err := client.IgnoreNotFound(s.options.SeedClient.Delete(ctx, namespace)); err != nil {
		return fmt.Errorf("failed to delete namespace %s: %w", namespace.Name, err)
	}
	return nil
}

// deploy deploys the relays as a migration does, the answerer, and what looks for room and pulls images.
func (s *stage) deploy(ctx context.Context, peerAuthority string) error {
	for _, object := range []client.Object{s.secret(peerAuthority), s.service()} {
		if err := s.options.SeedClient.Create(ctx, object); err != nil {
			return fmt.Errorf("failed to create %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	// It copies the Secrets with which the other pods pull the image, too.
	if err := s.exposure.Deploy(ctx); err != nil {
		return err
	}
	for _, statefulSet := range append(s.placeholders(), s.answerer()) {
		if err := s.options.SeedClient.Create(ctx, statefulSet); err != nil {
			return fmt.Errorf("failed to create StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
		}
	}
	return nil
}

func (s *stage) secret(peerAuthority string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: s.meta(Name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		keyAuthority:            []byte(peerAuthority),
		corev1.TLSCertKey:       s.leaf.CertificatePEM,
		corev1.TLSPrivateKeyKey: s.leaf.PrivateKeyPEM,
	}}
}

// service is the headless service of etcd members, as etcd-druid makes it.
func (s *stage) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: s.meta(naming.PeerServiceName(etcdRole)), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: AnswererLabels(),
		Ports: []corev1.ServicePort{{Name: "client", Port: naming.PortClient, Protocol: corev1.ProtocolTCP}},
	}}
}

// AnswererLabels returns the labels of the answerer, by which the policies of a migration know the members of etcd.
func AnswererLabels() map[string]string {
	return map[string]string{v1beta1constants.LabelApp: etcd.LabelAppValue}
}

func (s *stage) answerer() *appsv1.StatefulSet {
	container := s.idle()
	container.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("48Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	spec := exposure.Pod(AnswererLabels(), 1, container, []corev1.Volume{exposure.SecretVolume("tls", Name)})
	spec.ImagePullSecrets = s.values.PullSecrets.References()
	statefulSet := &appsv1.StatefulSet{ObjectMeta: s.meta(naming.EtcdName(etcdRole))}
	statefulSet.Spec = appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), ServiceName: naming.PeerServiceName(etcdRole),
		Selector: &metav1.LabelSelector{MatchLabels: AnswererLabels()},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: AnswererLabels()}, Spec: spec},
	}
	return statefulSet
}

// idle is a container that answers, if somebody asks.
func (s *stage) idle() corev1.Container {
	return corev1.Container{
		Name: "answer", Image: s.options.RelayImage,
		Args: []string{"answer", "--tls=" + mountPathTLS, fmt.Sprintf("--port=%d", naming.PortClient),
			fmt.Sprintf("--health-port=%d", healthPort)},
		Ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: naming.PortClient, Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: mountPathTLS, ReadOnly: true}},
	}
}

// ready returns what is not ready yet.
func (s *stage) ready(ctx context.Context) error {
	// The relays are ready only after they have been published.
	if err := s.exposure.Sync(ctx); err != nil {
		return err
	}
	for _, name := range []string{exposure.Name, naming.EtcdName(etcdRole)} {
		statefulSet := &appsv1.StatefulSet{ObjectMeta: s.meta(name)}
		if err := s.options.SeedClient.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
			return fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
		}
		if err := health.CheckStatefulSet(statefulSet); err != nil {
			return fmt.Errorf("StatefulSet %s is not ready: %w", name, err) //nolint:staticcheck // A kind.
		}
	}
	if err := exposure.CheckRecord(ctx, s.options.SeedClient, s.values); err != nil {
		return err
	}
	if err := s.checkRoom(ctx); err != nil {
		return err
	}
	return s.checkPulls(ctx)
}

// question returns how the other side is asked.
func (s *stage) question(peerAuthority string) (answer.Question, error) {
	certificate, err := tls.X509KeyPair(s.leaf.CertificatePEM, s.leaf.PrivateKeyPEM)
	if err != nil {
		return answer.Question{}, fmt.Errorf("failed to load the certificate of a probe: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(peerAuthority)) {
		return answer.Question{}, errors.New("failed to find a certificate in what the other seed is known by")
	}
	return answer.Question{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp",
				naming.RelayClientAddress(s.values.Namespace))
		},
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: naming.MemberHost(s.values.Namespace, etcdRole, ordinal),
			RootCAs: authorities, Certificates: []tls.Certificate{certificate},
		},
		Clock: s.options.Clock,
	}, nil
}
