// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/standins/machine/container"
)

// The kubelet waits before it starts a container again: at first a little, twice as long each time, and from the
// beginning again once one has run for long.
const (
	firstBackoff, mostBackoff, backoffEnds = 10 * time.Second, 5 * time.Minute, 10 * time.Minute
	defaultGrace                           = 30 * time.Second
)

// keepRestarting makes an attempt, tells why it has ended, and makes the next one, as the kubelet does it for
// containers, until the context ends and the last attempt has.
func keepRestarting(ctx context.Context, attempt func(context.Context) error, ended func(error)) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		begun := time.Now()
		err := attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		ended(err)
		if time.Since(begun) > backoffEnds {
			backoff = firstBackoff
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, mostBackoff)
	}
}

// image is the folder of an image of the machine.
func (n *Node) image(name string) string { return filepath.Join(n.Images, name) }

// containerLog is the file that takes what a container says. It outlives the pod.
func (n *Node) containerLog(files mounted) (*os.File, error) {
	folder := filepath.Join(n.Folder, "logs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("failed to make folder for logs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, files.pod.Name+"_"+files.container.Name+".log"),
		os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open log: %w", err)
	}
	return file, nil
}

// exit is how a container has ended, in words even if it did so without an error.
func exit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func (m mounted) command() []string { return slices.Concat(m.container.Command, m.container.Args) }

func (m mounted) grace() time.Duration {
	if seconds := m.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGrace
}

// env returns the environment of the container. Of what comes from the pod itself, only its name does.
func (m mounted) env() []string {
	var out []string
	for _, variable := range m.container.Env {
		value := variable.Value
		from := variable.ValueFrom
		if from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name" {
			value = m.pod.Name
		}
		out = append(out, variable.Name+"="+value)
	}
	return out
}

// materialise writes what the container mounts below the folder of the pod. Devices are there already, and other
// folders of the machine are not given away.
func (m mounted) materialise(ctx context.Context, folder string) ([]container.Mount, error) {
	var mounts []container.Mount
	for _, mount := range m.container.VolumeMounts {
		index := slices.IndexFunc(m.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if index < 0 {
			return nil, fmt.Errorf("the pod has no volume %s", mount.Name)
		}
		volume := &m.pod.Spec.Volumes[index]
		if volume.HostPath != nil {
			continue
		}
		if mount.SubPath != "" {
			return nil, fmt.Errorf("a part of volume %s is mounted, which is not possible here", mount.Name)
		}
		source := filepath.Join(folder, "volumes", volume.Name)
		if err := os.MkdirAll(source, 0o700); err != nil {
			return nil, fmt.Errorf("failed to make folder for a volume: %w", err)
		}
		files, err := m.files(ctx, volume)
		if err != nil {
			return nil, err
		}
		for name, content := range files {
			if err := writeFile(filepath.Join(source, name), content); err != nil {
				return nil, err
			}
		}
		mounts = append(mounts, container.Mount{Source: source, Target: mount.MountPath})
	}
	return mounts, nil
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("failed to make folder for a file of a volume: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("failed to write a file of a volume: %w", err)
	}
	return nil
}

// files returns the files of a volume.
func (m mounted) files(ctx context.Context, volume *corev1.Volume) (map[string][]byte, error) {
	out := map[string][]byte{}
	switch {
	case volume.EmptyDir != nil:
		return nil, nil
	case volume.ConfigMap != nil:
		return out, m.addConfigMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items, out)
	case volume.Secret != nil:
		return out, m.addSecret(ctx, volume.Secret.SecretName, volume.Secret.Items, out)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			var err error
			switch {
			case source.ConfigMap != nil:
				err = m.addConfigMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, out)
			case source.Secret != nil:
				err = m.addSecret(ctx, source.Secret.Name, source.Secret.Items, out)
			default:
				err = fmt.Errorf("volume %s has a source of a kind that is not possible here", volume.Name)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("volume %s is of a kind that is not possible here", volume.Name)
}

func (m mounted) addConfigMap(ctx context.Context, name string, items []corev1.KeyToPath, to map[string][]byte) error {
	object, err := m.client.CoreV1().ConfigMaps(m.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get ConfigMap %s/%s: %w", m.pod.Namespace, name, err)
	}
	data := map[string][]byte{}
	for key, content := range object.Data {
		data[key] = []byte(content)
	}
	return addItems("ConfigMap "+name, data, items, to)
}

func (m mounted) addSecret(ctx context.Context, name string, items []corev1.KeyToPath, to map[string][]byte) error {
	object, err := m.client.CoreV1().Secrets(m.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get Secret %s/%s: %w", m.pod.Namespace, name, err)
	}
	return addItems("Secret "+name, object.Data, items, to)
}

func addItems(object string, data map[string][]byte, items []corev1.KeyToPath, to map[string][]byte) error {
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		content, has := data[item.Key]
		if !has {
			return fmt.Errorf("the %s has no key %s", object, item.Key)
		}
		to[item.Path] = content
	}
	return nil
}

// probe asks as the kubelet does whether the container is ready, and tells the result, until the context ends. A
// container without a probe is ready as soon as it runs.
func (m mounted) probe(ctx context.Context, address string, set func(error)) {
	probe := m.container.ReadinessProbe
	if probe == nil || probe.HTTPGet == nil {
		set(nil)
		return
	}
	seconds := func(given, otherwise int32) time.Duration {
		if given <= 0 {
			given = otherwise
		}
		return time.Duration(given) * time.Second
	}
	host := net.JoinHostPort(or(probe.HTTPGet.Host, address), probe.HTTPGet.Port.String())
	url := "http://" + host + probe.HTTPGet.Path
	client := &http.Client{Timeout: seconds(probe.TimeoutSeconds, 1),
		Transport: &http.Transport{DisableKeepAlives: true}}
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	// The kubelet's defaults are filled in by the API server, and by nobody in a test.
	failed := int32(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = seconds(probe.PeriodSeconds, 10)
		err := get(ctx, client, url)
		if err == nil {
			failed = 0
			set(nil)
			continue
		}
		if failed++; failed >= max(probe.FailureThreshold, 1) && ctx.Err() == nil {
			set(fmt.Errorf("readiness probe failed: %w", err))
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

func or(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}
