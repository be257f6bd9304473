// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// mounted reads files of a container as the kubelet would mount them. The kubelet may read the ConfigMaps and Secrets
// of its pods.
type mounted struct {
	client    kubernetes.Interface
	pod       *corev1.Pod
	container *corev1.Container
}

// volume returns the volume that the file is in, and the file's path there.
func (m mounted) volume(file string) (*corev1.Volume, string, error) {
	for _, mount := range m.container.VolumeMounts {
		inside, is := strings.CutPrefix(path.Clean(file), path.Clean(mount.MountPath)+"/")
		if !is || mount.SubPath != "" {
			continue
		}
		for i, volume := range m.pod.Spec.Volumes {
			if volume.Name == mount.Name {
				return &m.pod.Spec.Volumes[i], inside, nil
			}
		}
	}
	return nil, "", fmt.Errorf("container %s mounts nothing at %s", m.container.Name, file)
}

// read returns the content of a file that comes from a ConfigMap or a Secret.
func (m mounted) read(ctx context.Context, file string) ([]byte, error) {
	volume, inside, err := m.volume(file)
	if err != nil {
		return nil, err
	}
	switch {
	case volume.ConfigMap != nil:
		return m.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items, inside)
	case volume.Secret != nil:
		return m.secret(ctx, volume.Secret.SecretName, volume.Secret.Items, inside)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap != nil {
				if content, err := m.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, inside); !errors.Is(
					err, os.ErrNotExist) {
					return content, err
				}
			}
			if source.Secret != nil {
				if content, err := m.secret(ctx, source.Secret.Name, source.Secret.Items, inside); !errors.Is(err,
					os.ErrNotExist) {
					return content, err
				}
			}
		}
	}
	return nil, fmt.Errorf("volume %s has no file %s: %w", volume.Name, inside, os.ErrNotExist)
}

func (m mounted) configMap(ctx context.Context, name string, items []corev1.KeyToPath, file string) ([]byte, error) {
	key, ok := keyOf(items, file)
	if !ok {
		return nil, os.ErrNotExist
	}
	object, err := m.client.CoreV1().ConfigMaps(m.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get ConfigMap %s/%s: %w", m.pod.Namespace, name, err)
	}
	content, ok := object.Data[key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no key %s: %w", m.pod.Namespace, name, key, os.ErrNotExist)
	}
	return []byte(content), nil
}

func (m mounted) secret(ctx context.Context, name string, items []corev1.KeyToPath, file string) ([]byte, error) {
	key, ok := keyOf(items, file)
	if !ok {
		return nil, os.ErrNotExist
	}
	object, err := m.client.CoreV1().Secrets(m.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to get Secret %s/%s: %w", m.pod.Namespace, name, err)
	}
	content, ok := object.Data[key]
	if !ok {
		return nil, fmt.Errorf("the Secret %s/%s has no key %s: %w", m.pod.Namespace, name, key, os.ErrNotExist)
	}
	return content, nil
}

// keyOf returns the key that a file of a volume comes from.
func keyOf(items []corev1.KeyToPath, file string) (string, bool) {
	if len(items) == 0 {
		return file, true
	}
	for _, item := range items {
		if item.Path == file {
			return item.Key, true
		}
	}
	return "", false
}

// token returns the projection of a token of the pod's service account that is mounted as that file.
func (m mounted) token(file string) (*corev1.ServiceAccountTokenProjection, error) {
	volume, inside, err := m.volume(file)
	if err != nil {
		return nil, err
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Path == inside {
				return source.ServiceAccountToken, nil
			}
		}
	}
	return nil, fmt.Errorf("volume %s has no token at %s", volume.Name, inside)
}

const (
	// renewAfter is the part of its life after which a token is replaced, as by the kubelet.
	renewAfter = 0.8
	// tokenRetry is how long a failed renewal is waited for.
	tokenRetry = 10 * time.Second
)

// keepToken writes a token of the pod's service account to a file, and a new one in time, until the context ends: what
// the kubelet does for its pods, with the kubelet's rights. It returns when the first one is there. The file is left
// behind.
func (m mounted) keepToken(
	ctx context.Context, log logr.Logger, projection *corev1.ServiceAccountTokenProjection, file string,
) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("failed to make folder for a token: %w", err)
	}
	life, err := m.writeToken(ctx, projection, file)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(life):
			}
			if life, err = m.writeToken(ctx, projection, file); err != nil && ctx.Err() == nil {
				log.Info("Could not renew a token", "reason", err.Error())
				life = tokenRetry
			}
		}
	}()
	return nil
}

// writeToken returns after how long the token has to be renewed.
func (m mounted) writeToken(
	ctx context.Context, projection *corev1.ServiceAccountTokenProjection, file string,
) (time.Duration, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: projection.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: m.pod.Name,
			UID: m.pod.UID},
	}}
	if projection.Audience != "" {
		request.Spec.Audiences = []string{projection.Audience}
	}
	asked := time.Now()
	granted, err := m.client.CoreV1().ServiceAccounts(m.pod.Namespace).CreateToken(ctx, m.pod.Spec.ServiceAccountName,
		request, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("failed to request a token of service account %s/%s: %w", m.pod.Namespace,
			m.pod.Spec.ServiceAccountName, err)
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, []byte(granted.Status.Token), 0o600); err != nil {
		return 0, fmt.Errorf("failed to write a token: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return 0, fmt.Errorf("failed to write a token: %w", err)
	}
	return max(tokenRetry, time.Duration(renewAfter*float64(granted.Status.ExpirationTimestamp.Sub(asked)))), nil
}
