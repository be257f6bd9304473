// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package authorizers says how Gardener's own SeedAuthorizer and SeedRestriction are brought in front of a garden: the
// configuration of gardener-admission-controller, which serves both, that of the kube-apiserver which asks it, and the
// objects that gardener-operator would apply. The landscape and the integration tests share it.
package authorizers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/Masterminds/semver/v3"
	admissioncontrollerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/admissioncontroller/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/component/gardener/admissioncontroller"
	operatorclient "github.com/gardener/gardener/pkg/operator/client"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

const (
	// Name is the name of the program.
	Name = admissioncontroller.DeploymentName
	// User is who it is in the garden.
	User = admissioncontroller.DeploymentName

	// seedWebhookPath is where gardener-admission-controller serves the SeedAuthorizer.
	seedWebhookPath = "/webhooks/auth/seed"
	namespace       = v1beta1constants.GardenNamespace
)

// Server is a running gardener-admission-controller.
type Server struct {
	// Address and Port are where it serves webhooks to the API servers.
	Address string
	Port    int
	// HealthPort and MetricsPort are beside it.
	HealthPort, MetricsPort int
	// CertDir has the serving certificate, tls.crt and tls.key. CA is the authority that has signed it.
	CertDir string
	CA      []byte
	// Kubeconfig is the file by which it reaches the garden.
	Kubeconfig string
}

// HealthURL is where it reports that its caches are filled and its webhooks are served.
func (s Server) HealthURL() string {
	return "http://" + net.JoinHostPort(s.Address, strconv.Itoa(s.HealthPort)) + "/readyz"
}

func (s Server) url() string { return "https://" + net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }

// Configuration is the component configuration of gardener-admission-controller.
func (s Server) Configuration(logLevel string) ([]byte, error) {
	config := &admissioncontrollerconfigv1alpha1.AdmissionControllerConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissioncontrollerconfigv1alpha1.SchemeGroupVersion.String(),
			Kind:       "AdmissionControllerConfiguration",
		},
		GardenClientConnection: componentbaseconfigv1alpha1.ClientConnectionConfiguration{Kubeconfig: s.Kubeconfig,
			QPS: 100, Burst: 130},
		LogLevel:  logLevel,
		LogFormat: "text",
		Server: admissioncontrollerconfigv1alpha1.ServerConfiguration{
			Webhooks: admissioncontrollerconfigv1alpha1.HTTPSServer{
				Server: admissioncontrollerconfigv1alpha1.Server{BindAddress: s.Address, Port: s.Port},
				TLS:    admissioncontrollerconfigv1alpha1.TLSServer{ServerCertDir: s.CertDir},
			},
			HealthProbes: &admissioncontrollerconfigv1alpha1.Server{BindAddress: s.Address, Port: s.HealthPort},
			Metrics:      &admissioncontrollerconfigv1alpha1.Server{BindAddress: s.Address, Port: s.MetricsPort},
		},
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("failed to encode configuration of %s: %w", Name, err)
	}
	return out, nil
}

// WebhookKubeconfig is the kubeconfig by which a kube-apiserver asks the SeedAuthorizer.
func (s Server) WebhookKubeconfig() ([]byte, error) {
	out, err := runtime.Encode(clientcmdlatest.Codec, kubernetesutils.NewKubeconfig(
		"seed-authorizer",
		clientcmdv1.Cluster{Server: s.url() + seedWebhookPath, CertificateAuthorityData: s.CA},
		clientcmdv1.AuthInfo{},
	))
	if err != nil {
		return nil, fmt.Errorf("failed to encode kubeconfig of the seed authorizer: %w", err)
	}
	return out, nil
}

// AuthorizationConfiguration lets a kube-apiserver ask the SeedAuthorizer, by the kubeconfig in the file, about
// gardenlets and service accounts of seeds. The kube-apiserver does not ask about what RBAC permits; without an answer,
// they are permitted nothing else. Everybody else is left alone, so a garden starts without it.
func AuthorizationConfiguration(kubeconfigFile string) ([]byte, error) {
	return encodeAuthorizers(seedAuthorizers(kubeconfigFile))
}

// AuthorizationConfigurationWithNodes does the same for a kube-apiserver that also has the authorizer for kubelets, as
// that of a real garden has.
func AuthorizationConfigurationWithNodes(kubeconfigFile string) ([]byte, error) {
	return encodeAuthorizers(append([]apiserverv1.AuthorizerConfiguration{{Type: "Node", Name: "node"}},
		seedAuthorizers(kubeconfigFile)...))
}

// seedAuthorizers are RBAC and the SeedAuthorizer behind it.
func seedAuthorizers(kubeconfigFile string) []apiserverv1.AuthorizerConfiguration {
	return []apiserverv1.AuthorizerConfiguration{
		{Type: "RBAC", Name: "rbac"},
		{Type: "Webhook", Name: "seed-authorizer",
			Webhook: &apiserverv1.WebhookConfiguration{
				// An answer is true of the moment only: the next change of a Shoot may make it another.
				AuthorizedTTL:                            metav1.Duration{Duration: 1},
				UnauthorizedTTL:                          metav1.Duration{Duration: 1},
				CacheAuthorizedRequests:                  ptr.To(false),
				CacheUnauthorizedRequests:                ptr.To(false),
				Timeout:                                  metav1.Duration{Duration: 10e9},
				FailurePolicy:                            apiserverv1.FailurePolicyDeny,
				SubjectAccessReviewVersion:               "v1",
				MatchConditionSubjectAccessReviewVersion: "v1",
				ConnectionInfo: apiserverv1.WebhookConnectionInfo{
					Type:           apiserverv1.AuthorizationWebhookConnectionInfoTypeKubeConfigFile,
					KubeConfigFile: &kubeconfigFile,
				},
				MatchConditions: []apiserverv1.WebhookMatchCondition{{Expression: fmt.Sprintf(
					"%q in request.groups || request.groups.exists(g, g.startsWith(%q))",
					v1beta1constants.SeedsGroup,
					serviceaccount.ServiceAccountGroupPrefix+gardenerutils.SeedNamespaceNamePrefix,
				)}},
			}},
	}
}

func encodeAuthorizers(authorizers []apiserverv1.AuthorizerConfiguration) ([]byte, error) {
	out, err := yaml.Marshal(&apiserverv1.AuthorizationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(),
			Kind: "AuthorizationConfiguration"},
		Authorizers: authorizers,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to encode authorization configuration: %w", err)
	}
	return out, nil
}

// Objects are what gardener-operator applies to a virtual garden for gardener-admission-controller, made by Gardener's
// own component: first what it needs itself, then what makes the API servers ask it, which must not come before it
// answers.
func (s Server) Objects(ctx context.Context) (access, webhooks []client.Object, err error) {
	c := fakeclient.NewClientBuilder().WithScheme(operatorclient.RuntimeScheme).Build()
	for name, data := range map[string]map[string][]byte{
		operatorv1alpha1.SecretNameCAGardener:             {secretsutils.DataKeyCertificateBundle: s.CA},
		v1beta1constants.SecretNameGenericTokenKubeconfig: nil,
	} {
		if err := c.Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: data}); err != nil {
			return nil, nil, fmt.Errorf("failed to prepare Secret %s for the component of %s: %w", name, Name, err)
		}
	}
	if err := admissioncontroller.New(c, namespace, fakesecretsmanager.New(c, namespace), admissioncontroller.Values{
		LogLevel:                      "info",
		RuntimeVersion:                semver.MustParse("1.36.0"),
		AuthorizerRestrictionsEnabled: true,
	}).Deploy(ctx); err != nil {
		return nil, nil, fmt.Errorf("failed to deploy the component of %s: %w", Name, err)
	}
	objects, err := managedresources.GetObjects(ctx, c, namespace, admissioncontroller.ManagedResourceNameVirtual)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to read what the component of %s has deployed: %w", Name, err)
	}

	for _, object := range objects {
		switch typed := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			typed.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}
			access = append(access, typed)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for i := range typed.Webhooks {
				if err := s.direct(&typed.Webhooks[i].ClientConfig); err != nil {
					return nil, nil, err
				}
			}
			webhooks = append(webhooks, typed)
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for i := range typed.Webhooks {
				if err := s.direct(&typed.Webhooks[i].ClientConfig); err != nil {
					return nil, nil, err
				}
			}
			webhooks = append(webhooks, typed)
		default:
			access = append(access, typed)
		}
	}
	if len(webhooks) != 2 || len(access) != 2 {
		return nil, nil, fmt.Errorf("failed to recognize what the component of %s has deployed: %d objects, %d of "+
			"them webhooks", Name, len(objects), len(webhooks))
	}
	return access, webhooks, nil
}

// direct points a webhook at the server, which has no Service in front of it.
func (s Server) direct(config *admissionregistrationv1.WebhookClientConfig) error {
	webhook, err := url.Parse(ptr.Deref(config.URL, ""))
	if err != nil {
		return fmt.Errorf("failed to parse URL of a webhook of %s: %w", Name, err)
	}
	config.URL = ptr.To(s.url() + webhook.Path)
	return nil
}
