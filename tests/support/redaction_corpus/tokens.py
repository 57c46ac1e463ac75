"""Tokens of known services, each of the right shape, with the checksum of the service where that is known."""

from __future__ import annotations

import base64
import json
import string
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.support.redaction_corpus.chance import Chance

Maker = Callable[[Chance], str]
"""Makes a value."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


@dataclass(frozen=True, slots=True)
class Token:
    variable: str  # The environment variable that it mostly stands in
    make: Maker  # Makes one
    held_out: bool = False  # Only the hold-out half has it


def _checked(prefix: str, count: int) -> Maker:
    """GitHub's and npm's: six characters of CRC-32 at the end."""

    def make(chance: Chance) -> str:
        body = chance.alnum(count)
        rest, letters = zlib.crc32(body.encode()), ""
        for _ in range(6):
            rest, place = divmod(rest, 62)
            letters = _BASE62[place] + letters
        return f"{prefix}{body}{letters}"

    return make


def jwt(chance: Chance, claims: Mapping[str, object] | None = None) -> str:
    """A signed JSON web token."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")

    body = claims or {"sub": chance.digits(10), "name": "Noa Lindqvist", "iat": 1763000000, "exp": 1963000000}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(body)}.{chance.base64_url(32)}"


def _service_account_token(chance: Chance) -> str:
    name = f"{chance.of('bcdfgk', 3)}-deployer"
    return jwt(chance, {"iss": "kubernetes/serviceaccount", "sub": f"system:serviceaccount:prod:{name}"})


def _discord(chance: Chance) -> str:
    user = base64.b64encode(chance.digits(18).encode()).decode().rstrip("=")
    return f"{user}.G{chance.alnum(5)}.{chance.url_safe(38)}"


def _pypi(chance: Chance) -> str:
    return f"pypi-AgEIcHlwaS5vcmc{chance.base64_url(114)}"


def _mapbox(chance: Chance) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"u": "tidewater", "a": chance.lower(25)}).encode()).decode().rstrip("=")
    return f"sk.{body}.{chance.url_safe(22)}"


TOKENS: Mapping[str, Token] = {
    "github-classic": Token("GITHUB_TOKEN", _checked("ghp_", 30)),
    "github-fine-grained": Token("GH_TOKEN", lambda c: f"github_pat_11{c.upper(20)}_{c.alnum(59)}"),
    "github-app": Token("GH_APP_TOKEN", _checked("ghs_", 30), held_out=True),
    "gitlab-personal": Token("GITLAB_TOKEN", lambda c: f"glpat-{c.url_safe(20)}"),
    "gitlab-runner": Token("CI_RUNNER_TOKEN", lambda c: f"glrt-{c.url_safe(20)}", held_out=True),
    "bitbucket-app-password": Token("BITBUCKET_APP_PASSWORD", lambda c: f"ATBB{c.alnum(24)}{c.upper(8)}"),
    "aws-secret-key": Token("AWS_SECRET_ACCESS_KEY", lambda c: c.base64(30)),
    "aws-session-token": Token("AWS_SESSION_TOKEN", lambda c: f"IQoJb3JpZ2luX2Vj{c.base64(240)}", held_out=True),
    "google-api-key": Token("GOOGLE_API_KEY", lambda c: f"AIzaSy{c.url_safe(33)}"),
    "google-client-secret": Token("GOOGLE_CLIENT_SECRET", lambda c: f"GOCSPX-{c.url_safe(28)}"),
    "google-refresh-token": Token("GOOGLE_REFRESH_TOKEN", lambda c: f"1//0{c.url_safe(60)}", held_out=True),
    "azure-storage-key": Token("AZURE_STORAGE_KEY", lambda c: c.base64(64)),
    "azure-client-secret": Token("AZURE_CLIENT_SECRET", lambda c: f"{c.alnum(3)}8Q~{c.url_safe(34)}"),
    "slack-bot": Token("SLACK_BOT_TOKEN", lambda c: f"xoxb-{c.digits(12)}-{c.digits(13)}-{c.alnum(24)}"),
    "slack-app": Token("SLACK_APP_TOKEN", lambda c: f"xapp-1-A{c.upper(10)}-{c.digits(13)}-{c.hex(64)}", held_out=True),
    "discord-bot": Token("DISCORD_TOKEN", _discord),
    "telegram-bot": Token("TELEGRAM_BOT_TOKEN", lambda c: f"{c.digits(10)}:AA{c.url_safe(33)}"),
    "stripe-secret": Token("STRIPE_SECRET_KEY", lambda c: f"sk_live_51{c.alnum(97)}"),
    "stripe-restricted": Token("STRIPE_RESTRICTED_KEY", lambda c: f"rk_live_{c.alnum(24)}", held_out=True),
    "stripe-webhook": Token("STRIPE_WEBHOOK_SECRET", lambda c: f"whsec_{c.alnum(32)}"),
    "twilio-auth-token": Token("TWILIO_AUTH_TOKEN", lambda c: c.hex(32)),
    "sendgrid": Token("SENDGRID_API_KEY", lambda c: f"SG.{c.url_safe(22)}.{c.url_safe(43)}"),
    "mailgun": Token("MAILGUN_API_KEY", lambda c: f"key-{c.hex(32)}"),
    "mailchimp": Token("MAILCHIMP_API_KEY", lambda c: f"{c.hex(32)}-us{c.randint(10, 21)}", held_out=True),
    "openai": Token("OPENAI_API_KEY", lambda c: f"sk-proj-{c.url_safe(74)}T3BlbkFJ{c.url_safe(74)}"),
    "anthropic": Token("ANTHROPIC_API_KEY", lambda c: f"sk-ant-api03-{c.url_safe(93)}AA"),
    "huggingface": Token("HF_TOKEN", lambda c: f"hf_{c.of(string.ascii_letters, 34)}"),
    "replicate": Token("REPLICATE_API_TOKEN", lambda c: f"r8_{c.alnum(37)}", held_out=True),
    "groq": Token("GROQ_API_KEY", lambda c: f"gsk_{c.alnum(52)}"),
    "cohere": Token("COHERE_API_KEY", lambda c: c.alnum(40), held_out=True),
    "npm": Token("NPM_TOKEN", _checked("npm_", 30)),
    "pypi": Token("PYPI_TOKEN", _pypi),
    "rubygems": Token("RUBYGEMS_API_KEY", lambda c: f"rubygems_{c.hex(48)}", held_out=True),
    "crates": Token("CARGO_REGISTRY_TOKEN", lambda c: f"cio{c.alnum(32)}"),
    "docker-hub": Token("DOCKERHUB_TOKEN", lambda c: f"dckr_pat_{c.url_safe(27)}"),
    "terraform-cloud": Token("TFE_TOKEN", lambda c: f"{c.alnum(14)}.atlasv1.{c.url_safe(67)}"),
    "vault": Token("VAULT_TOKEN", lambda c: f"hvs.{c.url_safe(94)}"),
    "digitalocean": Token("DIGITALOCEAN_TOKEN", lambda c: f"dop_v1_{c.hex(64)}"),
    "heroku": Token("HEROKU_API_KEY", lambda c: c.uuid(), held_out=True),
    "cloudflare": Token("CLOUDFLARE_API_TOKEN", lambda c: c.url_safe(40)),
    "fly": Token("FLY_API_TOKEN", lambda c: f"FlyV1 fm2_{c.base64(150)}", held_out=True),
    "netlify": Token("NETLIFY_AUTH_TOKEN", lambda c: f"nfp_{c.alnum(36)}"),
    "supabase": Token("SUPABASE_ACCESS_TOKEN", lambda c: f"sbp_{c.hex(40)}"),
    "planetscale": Token("PLANETSCALE_TOKEN", lambda c: f"pscale_tkn_{c.url_safe(43)}", held_out=True),
    "datadog": Token("DD_API_KEY", lambda c: c.hex(32)),
    "newrelic": Token("NEW_RELIC_API_KEY", lambda c: f"NRAK-{c.upper(27)}"),
    "grafana": Token("GRAFANA_TOKEN", lambda c: f"glsa_{c.alnum(32)}_{c.hex(8)}", held_out=True),
    "linear": Token("LINEAR_API_KEY", lambda c: f"lin_api_{c.alnum(40)}"),
    "notion": Token("NOTION_TOKEN", lambda c: f"ntn_{c.digits(11)}{c.alnum(35)}"),
    "airtable": Token("AIRTABLE_API_KEY", lambda c: f"pat{c.alnum(14)}.{c.hex(64)}", held_out=True),
    "atlassian": Token("JIRA_API_TOKEN", lambda c: f"ATATT3xFfGF0{c.url_safe(171)}={c.upper(8)}"),
    "shopify": Token("SHOPIFY_ACCESS_TOKEN", lambda c: f"shpat_{c.hex(32)}"),
    "square": Token("SQUARE_ACCESS_TOKEN", lambda c: f"EAAAE{c.url_safe(59)}", held_out=True),
    "mapbox": Token("MAPBOX_SECRET_TOKEN", _mapbox),
    "figma": Token("FIGMA_TOKEN", lambda c: f"figd_{c.url_safe(40)}", held_out=True),
    "postman": Token("POSTMAN_API_KEY", lambda c: f"PMAK-{c.hex(24)}-{c.hex(34)}"),
    "doppler": Token("DOPPLER_TOKEN", lambda c: f"dp.pt.{c.alnum(43)}", held_out=True),
    "age-key": Token("SOPS_AGE_KEY", lambda c: f"AGE-SECRET-KEY-1{c.of(_BECH32, 58)}"),
    "tailscale": Token("TS_AUTHKEY", lambda c: f"tskey-auth-k{c.alnum(10)}CNTRL-{c.alnum(32)}"),
    "web-token": Token("SERVICE_JWT", jwt),
    "service-account-token": Token("K8S_SA_TOKEN", _service_account_token, held_out=True),
    "laravel-key": Token("APP_KEY", lambda c: f"base64:{c.base64(32)}"),
    "own-token": Token("INTERNAL_API_TOKEN", lambda c: c.alnum(c.randint(24, 48))),
    "own-signing-key": Token("SESSION_SIGNING_KEY", lambda c: c.hex(64), held_out=True),
}
"""Every kind of token."""
