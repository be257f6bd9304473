// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/overload"
)

const (
	// canaryName is the name of the ConfigMap that is written and deleted to prove that writes arrive.
	canaryName = "livecpm-canary"
	// canaryKey holds what was written.
	canaryKey = "written"
	// probeTimeout bounds each request of the probe.
	probeTimeout = 15 * time.Second
	// probeCertificateValidity is the life of the client certificate that the probe makes for itself. It never leaves
	// the process.
	probeCertificateValidity = 10 * time.Minute
)

// probe asks for /readyz and writes a canary through the destination's gateway, the way that clients take once DNS has
// moved: the address is the gateway's, the name in TLS is the shoot's.
func (d *destination) probe(ctx context.Context, clock clock.PassiveClock, b *botanist.Botanist) error {
	_, err := d.probeTimed(ctx, clock, b)
	return err
}

// waitingTime makes requests as a client does and returns how long the slowest one took.
type waitingTime func(ctx context.Context) (slowest time.Duration, err error)

// check returns an overload.Error if the slowest request has taken longer than overload.Bound, and what has failed
// otherwise.
func (w waitingTime) check(ctx context.Context) error {
	slowest, err := w(ctx)
	return overload.Check("the kube-apiserver of the destination", slowest, err)
}

// promptly returns a probe that also fails, and reports that, if clients would wait too long: they are about to come.
func promptly(m *migration.Migration, probe waitingTime) func(context.Context) error {
	return func(ctx context.Context) error { return m.ReportPutOff(ctx, probe.check(ctx)) }
}

// probeTimed probes and returns how long the slowest request took.
func (d *destination) probeTimed(
	ctx context.Context, clock clock.PassiveClock, b *botanist.Botanist,
) (time.Duration, error) {
	config, err := d.probeConfig(b)
	if err != nil {
		return 0, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("failed to make a client for the kube-apiserver of the destination: %w", err)
	}
	return probeKubeAPIServer(ctx, client, clock)
}

func (d *destination) probeConfig(b *botanist.Botanist) (*rest.Config, error) {
	config, err := d.shootConfig(b)
	if err != nil {
		return nil, err
	}
	var (
		dialer  = &net.Dialer{Timeout: probeTimeout}
		address = net.JoinHostPort(b.APIServerAddress, strconv.Itoa(443))
	)
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	return config, nil
}

// shootConfig is access to the shoot as an administrator, under its name and wherever DNS leads.
func (d *destination) shootConfig(b *botanist.Botanist) (*rest.Config, error) {
	clientCA, found := b.SecretsManager.Get(v1beta1constants.SecretNameCAClient, secretsmanager.Current)
	if !found {
		return nil, fmt.Errorf("failed to find secret %s", v1beta1constants.SecretNameCAClient)
	}
	clusterCA, found := b.SecretsManager.Get(v1beta1constants.SecretNameCACluster)
	if !found {
		return nil, fmt.Errorf("failed to find secret %s", v1beta1constants.SecretNameCACluster)
	}

	signingCA, err := secretsutils.LoadCertificate(clientCA.Name, clientCA.Data[secretsutils.DataKeyPrivateKeyCA],
		clientCA.Data[secretsutils.DataKeyCertificateCA])
	if err != nil {
		return nil, fmt.Errorf("failed to load CA %s: %w", clientCA.Name, err)
	}
	validity := probeCertificateValidity
	certificate, err := (&secretsutils.CertificateSecretConfig{
		Name:         "livecpm-probe",
		CommonName:   "livecpm-probe",
		Organization: []string{user.SystemPrivilegedGroup},
		CertType:     secretsutils.ClientCert,
		SigningCA:    signingCA,
		Validity:     &validity,
	}).GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("failed to make a client certificate for the probe: %w", err)
	}

	return &rest.Config{
		Host:    "https://" + b.Shoot.ComputeOutOfClusterAPIServerAddress(false),
		Timeout: probeTimeout,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   clusterCA.Data[secretsutils.DataKeyCertificateBundle],
			CertData: certificate.CertificatePEM,
			KeyData:  certificate.PrivateKeyPEM,
		},
	}, nil
}

// probeKubeAPIServer returns how long the slowest request took, but for the first one, which makes the connection.
func probeKubeAPIServer(
	ctx context.Context, client kubernetes.Interface, clock clock.PassiveClock,
) (slowest time.Duration, err error) {
	if err := getReadyz(ctx, client); err != nil {
		return 0, fmt.Errorf("failed to get /readyz of the kube-apiserver through the gateway of the destination: %w",
			err)
	}

	var (
		configMaps = client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
		value      = clock.Now().UTC().Format(time.RFC3339Nano)
	)
	for _, request := range []func() error{
		func() error {
			// A former attempt may have left its canary behind.
			err := configMaps.Delete(ctx, canaryName, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("failed to delete the former canary: %w", err)
			}
			return nil
		},
		func() error {
			if _, err := configMaps.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: canaryName},
				Data:       map[string]string{canaryKey: value},
			}, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("failed to write the canary through the gateway of the destination: %w", err)
			}
			return nil
		},
		func() error {
			canary, err := configMaps.Get(ctx, canaryName, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("failed to read the canary: %w", err)
			}
			if got := canary.Data[canaryKey]; got != value {
				return fmt.Errorf("failed to read back the canary: it holds %q instead of %q", got, value)
			}
			return nil
		},
		func() error {
			if err := configMaps.Delete(ctx, canaryName, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("failed to delete the canary: %w", err)
			}
			return nil
		},
	} {
		asked := clock.Now()
		err := request()
		slowest = max(slowest, clock.Since(asked))
		if err != nil {
			return slowest, err
		}
	}
	return slowest, nil
}

func getReadyz(ctx context.Context, client kubernetes.Interface) error {
	paths := client.Discovery().RESTClient()
	if paths == nil {
		return errors.New("the client cannot ask for paths")
	}
	return paths.Get().AbsPath("/readyz").Do(ctx).Error()
}
