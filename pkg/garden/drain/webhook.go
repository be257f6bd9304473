// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

const (
	// webhookEventType is the type of the CloudEvents.
	webhookEventType = "io.livecpm.drain.move.announced"
	// webhookContentType is that of CloudEvents 1.0 in structured mode.
	webhookContentType = "application/cloudevents+json"
	// maxAnswer is how much of an answer is read, so that the connection can be used again.
	maxAnswer = 64 << 10
)

// Notifier tells somebody about a move before it begins.
type Notifier interface {
	// Notify tells about the move. It is called again for the same move if it fails, or if the process ends before that
	// was recorded. Its errors contain no secrets.
	Notify(ctx context.Context, notice Notice) error
}

// Notice is what is told about a move. The fields with JSON names are the data of the CloudEvent.
type Notice struct {
	// ID is the same whenever the same move is told about.
	ID string `json:"-"`
	// Time is when the move was announced.
	Time time.Time `json:"-"`
	// Namespace, Name and Purpose are those of the Shoot.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Purpose   string `json:"purpose,omitempty"`
	// Seed and Destination are the seeds, Way is how the control plane moves.
	Seed        string    `json:"seed"`
	Destination string    `json:"destination"`
	Way         drain.Way `json:"way"`
	// FinalDestination is where the chain of migrations ends of which the move is one; empty if it is the only one.
	FinalDestination string `json:"finalDestination,omitempty"`
	// NotBefore is when the move begins at the earliest.
	NotBefore time.Time `json:"notBefore"`
}

// cloudEvent is a CloudEvent 1.0 (https://github.com/cloudevents/spec).
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            Notice    `json:"data"`
}

// Webhook is a Notifier that posts CloudEvents to a URL.
type Webhook struct {
	url, tokenFile string
	timeout        time.Duration
	client         *http.Client
}

// NewWebhook returns the webhook of the configuration, whose defaults must be set. It fails if the file with the
// authorities cannot be used.
func NewWebhook(config configv1alpha1.DrainWebhook) (*Webhook, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if config.CAFile != "" {
		content, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("failed to read the certificate authorities of the drain's webhook: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("there is no certificate in %s, the file with the authorities of the drain's "+
				"webhook", config.CAFile)
		}
	}
	return &Webhook{
		url: config.URL, tokenFile: config.TokenFile, timeout: config.Timeout.Duration,
		client: &http.Client{
			Transport: transport,
			// The token is for this endpoint only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Notify posts the notice. Everything but an answer of 200 to 299 within the timeout is a failure.
func (w *Webhook) Notify(ctx context.Context, notice Notice) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	body, err := json.Marshal(cloudEvent{SpecVersion: "1.0", ID: notice.ID, Source: "/livecpm/seeds/" + notice.Seed,
		Type: webhookEventType, Subject: notice.Namespace + "/" + notice.Name, Time: notice.Time,
		DataContentType: "application/json", Data: notice})
	if err != nil {
		return fmt.Errorf("failed to encode the notice: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		// The error would tell the URL, which may have a secret in its path or query.
		return errors.New("controllers.drain.notice.webhook.url is no URL")
	}
	request.Header.Set("Content-Type", webhookContentType)
	if w.tokenFile != "" {
		// It is read each time, since whoever mounts it may renew it.
		token, err := os.ReadFile(w.tokenFile)
		if err != nil {
			return fmt.Errorf("failed to read the token of the drain's webhook: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("failed to post to the drain's webhook at %s: %w", request.URL.Host, withoutURL(err))
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the drain's webhook at %s answered %d", request.URL.Host, answer.StatusCode)
	}
	return nil
}

// withoutURL returns what the client's error is about, without the URL that it names.
func withoutURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
