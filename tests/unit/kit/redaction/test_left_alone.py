"""What real programs, documents and translations hold, and what is no secret in any of them."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.identity import new_session_id
from tests.support.redactors import shared_redactor

WASM = (
    "AGFzbQEAAAABhoCAgAABYAF/AX8DgoCAgAABAASEgICAAAFwAAAFg4CAgAABAAEGgYCAgAAAB5GAgIAAAgZtZW1vcnkCAANmaWIAAAqlgICAAAGf"
    "gICAAAAgAEEBTARAQQEPCyAAQQFrEAAgAEECaxAAag8LAAAAxyzw="
)
LEFT_ALONE = (
    "username, password = index_url_user_password\n",
    'x = f(Bucket=s3_location["Bucket"], Key=s3_location["Key"])\n',
    '"AWSCognitoIdentityProviderService.ConfirmSignUp",\n',
    "limit = std::min(ParsedCookie::kMaxPairs, 4);\n",
    "return ParsedSecret::kMaxPairs9x;\n",
    "     3     USER user@fwuser@remote.host\n           PASS pass@fwpass\n",
    "result: PASS pass@fwpass\n",
    "> PASS pass@fwpass\n",
    "session required pam_unix.so\n@include common-session\n@include common-password\n",
    "o fixes Diffie Hellman key exchange on Windows 1903+ builds\n",
    "s/&/ucfirst(lc($pw->name))/ge;\n",
    "while (defined(my $key = Term::ReadKey::ReadKey(0))) {\n",
    "my %valid_methods = qw/trust 1 reject 1 md5 1 crypt 1 password 1 krb5 1 ident 1 pam 1/;\n",
    "  local OPTS='--password --recovery-key'\n",
    "--recovery-key --pkcs11-token-uri --fido2-device --tpm2-device\n",
    "    [STANDALONE]='-h --help --version\n         --password --recovery-key'\n    [ARG]='--unlock-key-file\n          --pkcs11-token-uri\n          --fido2-device'\n",  # noqa: E501
    "  LatticeKey Key = KeyInfo::getLatticeKeyFromValue(&PN);\n",
    "  enum Key : uint32_t {\n",
    " * in format=xmlSecKeyDataFormatPkcs12.\n",
    " * @cryptoAppDefaultPwdCallback:the default password callback.\n",
    "let pwd = a:dict.istemp ? a:dict.tmpdir : ''\n",
    'syn match sshconfigHostKeyAlgo "\\<sk-ssh-ed25519-cert-v01@openssh\\.com\\>"\n',
    'syn match sshconfigHostKeyAlgo "\\<sk-ecdsa-sha2-nistp256-cert-v01@openssh\\.com\\>"\n',
    '<comment xml:lang="bg">Ключ — PKCS#8, частен, шифриран</comment>\n',
    "请再次输入上次的密码，以确定您到底键入了些什么。\n",
    "如果您相信有某个未经许可的人已取得了您的私钥，请选此项。\n",
    "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=systemd-firstboot --prompt-locale --prompt-keymap --prompt-timezone --prompt-root-password\nStandardOutput=tty\nStandardInput=tty\nStandardError=tty\n",  # noqa: E501
    '"OAUTH2_CLIENT_CREDENTIALS",\n',
    '"SID": "S-1-2-34-56789123456-7891012345-6789123486-789"\n',
    '"encryptionKey": "arn:aws:kms:<region-ID>:<account-ID>:alias/aws/s3",\n',
    'aws x --next-token "nextTokenValue"\n',
    '"LockToken":"0bc01e21-03c9-4b98-9433-6229cbf1ef1c",\n',
    '"ChangeToken": "abcd12f2-46da-4fdb-b8d5-fbd4c466928f",\n',
    '"RequestToken": "20999d87-e304-4725-ad84-832dcbfd7fc5"\n',
    "aws waf-regional update --change-token 12cs345-67cd-890b-1cd2-c3a4567d89f1\n",
    "aws waf update --lock-token 447e55ac-2396-4c6d-b9f9-86b67c17f8b5\n",
    "token: `Basic ${Buffer.from('username:password').toString('base64')}`\n",
    "org_id=org-4f8a1c2e9b3d session_id=6f1f6b0e-2b2d-4f5e-9c0d-7a7a1d2b3c4d\n",
    "Buy flour, sugar, butter, milk, apple, banana, orange, lemon, garlic, onion, potato and carrot for the recipe.\n",
    "Then export the variable:\n  export API_TOKEN=your.token.here\n",
    "  -W, --password           force password prompt\n",
    "  -W, --password           パスワードプロンプトの強制表示\n",
    "Syntax: gpg-preset-passphrase [Optionen] KEYGRIP\n",
    "deploy --hugging-face-access-token={hf_token} --project=example\n",
    'msgstr "エラーのあるトークンは \\"%s\\""\n',
    "このパスフレーズは%.4s-%.2s-%.2sから変更されていません。\n",
    "skipping credential lookup for key: credential.%s\n",
    'テーブル"%3$s"にキー(%1$s)=(%2$s)がありません\n',
    'msgid "Please enter the passphrase to%0Aprotect your new key"\n',
    "Sie möchten kein Passwort - Dies ist nicht unbedingt zu empfehlen!%0A\n",
    'msgstr "Hinweis: Dieser Schlüssel ist verfallen!\\n"\n',
    "オプション --restrict-key は --format=plain を指定したときのみ指定可能です\n",
    "|NAME|PKCS#12のパスフレーズにNAMEのエンコーディングを使う\n",
    "按下标签可记忆键时要激活的部件\n",
    "此卡片将会被重新配置以生成一个 %u 位的新密钥\n",
    "Passwort wiederholen:\n",
    "Number key 4 when pressed in isolation\n",
    "usermod -p 来为此账户设置密码并解锁。\n",
    '無効なトークン: "%s"\n',
    '"OAUTH2_CLIENT_CREDENTIALS", # a token\n',
    'token = "AWSCognitoIdentityProviderService.ConfirmSignUp"\n',
    "x({pass:!0,auth:q})\n",
    "var a={password:!1,token:void 0};\n",
    "f({token:!e.x&&t,pass:void 0})\n",
    "password = random_password.pg7.result\n",
    '{"DbPassword": "@Microsoft.KeyVault(SecretUri=https://shop.vault.azure.net/secrets/db/)"}\n',
    "login('bob', 'wrong-password')\n",
    'signer = hmac.new(secret_key.encode("utf-8"), message)\n',
    '"token": "ecr:BatchCheckLayerAvailability"\n',
    '"ecr:GetAuthorizationToken",\n"ecr:BatchCheckLayerAvailability",\n',
    "        # credentials\n        from google.oauth2 import _service_account_async as service_account\n",
    "        if password1 != password_repeat:\n            continue\n",
    "get_password = (lambda: password) if password else None\n",
    'raise ValueError("Invalid password or PKCS12 data")\n',
    "key = e.path[-1]\n",
    "key = key[:-1]\n",
    '"AWS::ApiGateway::ApiKey": "b899a0d240b53d9d",\n',
    'API_LIB_KEY = "com.sun.j2me"\n',
    '"MYSQL_NATIVE_PASSWORD", "MYSQL_CACHING_SHA2_PASSWORD"\n',
    "const IHelpers = new Token('@jupyterlab/galata-extension:IGalataHelpers');\n",
    "s.validateUnionIdentifiers&&s.validateUnionIdentifiers(r[a])\n",
    f"atob('{WASM}')\n",
    "use the key alias, or the name of it\n",
    "on the primary key (created by using ``Box::Key``)\n",
    "the default managed key (using its number, not the alias)\n",
    "another managed key (SSE-KMS), or false\n",
    "read about key policies, and about auth\n",
    "was set only in the private key structure, not in the other\n",
    "to set a new key (uses 1k of key tables)\n",
    "account, the role must allow ec2:DescribePeerConnections and ec2:ModifyPeerConnectionOptions.\n",
    "'driver://user:pass@hostname/dbname?prepared_statement_cache_size=500'\n",
    "        pass ``stacked=False``:\n",
    "    Pass CPPFLAGS=-Werror to the build\n",
    "Pass engine='openpyxl' (or set it)\n",
    "solaris2.[7-9], pass -fsimple=1 to it\n",
    'Pass CFLAGS="-xO4 -xtarget=generic" on the command line\n',
    "a copy of the data to pass to libzmq\n",
    'tokens = ["foo", " ", "bar", " ", "19June2000", "baz"]\n',
    'tokens = ["19June2000", "baz"]\n',
    "- 'github://org:repo@sha/precip/catalog.yml', where the sha is included\n",
    "  cvs://:pserver:anoncvs@sources.example.com:/cvs/src\n",
    't.password===""?t.password=t.url.password:t.url.password=t.password}let{cookieJar:u}=t;if(u){let{',
    "null===e.columnDefinition.columnDataKey?null:e.rowData[e.columnDefinition.columnDataKey]}\n",
    'debug4("pw:adb:runCommand")(command, serial);\n',
    'h.optgroup=e.bind(void 0,"optgroup"),h\n',
    'lastToken?(t.tokenize=y)(e,t):k(r,o)||":"===r\n',
    "uint64_t* const customSecret2 = (uint64_t*)customSecret;\n",
    "#define XXH_initSecret XXH_initSecret_rvv2\n",
    'WS_KEY: Final[bytes] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"\n',
    'self.update_token = "9a2b3f4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"\n',
    'client.update_token("9a2b3f4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d")\n',
    "x/dumper.pyi,sha256=sk_bJkC1VTNz9STPygp9WigFOc4yKFXbXJzz7vnNA7c,2346\n",
    '"Sid":"EC2CFNReadonlyPrefixList"\n',
    "pri_psk->flags.primary, pri_psk->keyid and pri_psk->main_keyid.\n",
    "Use pwd->pw_name instead of pwd->pw_uid. This\n",
    "PASS: addr2line\nPASS: all/i386/pr21231a\nFAIL: x\nPASS: .equ redefinitions (2)\nPASS: objcopy (simple copy)\n",
    "gpg: Set default keysize to rsa3072.\n",
    "hashed passwords remains Argon2i in it\n",
    "auth is skipped (CVE-2006-7108)  [x]\n",
    "run set info with opener credentials (CVE-2026-64393)\n",
    "(GnuPG key: 0x7EC2DBB6F4DBF434)\n",
    "new upstream signing key 19882D92DDA4C400C22C0D56CC2AF4472167BE03\n",
    'credit_card: "kredit kart\\u0131 n\\xF6mr\\u0259si",\n',
    "E_RECOVERY_KEY_REQUIRED: Final = -2144272350\nE_FOREIGN: Final = -2144272349\n",
    "credential: add credential.*.username\n",
    "Example: arn:aws:secretsmanager:region:account-number:secret:mymanagedADtestsecret-123456\n",
    "const childSessionId = params2?.sessionId;\nif (!this.config.secrets?.[secretName2])\n",
    "Replaces on passwd <= 1:4.0.12-6, since\n",
    '"accept, content-type, authorization, x-xsrftoken",\n',
    "http://www.example.org/?op=displaystory;sid=2001/1/25/164540/759\n",
    "the folder akiaiosfodnn7exbmple\n",
    "c.password=e.auth?f(c):g(c)\n",
    "a.secret=b?.c??d\n",
    "{secret:e.s&&e.s.v}\n",
    "{apiKey:n?n.key:void 0}\n",
    't.key=e.key||"",t.keyCode=e.keyCode||0\n',
    "return Xt.exclamationToken=Q,Pe(D(Xt,o),p)}function Qt(a){return e.IS_MAC?t.metaKey:t.ctrlKey}}(s||(s={}))\n",
    "my $Token = qr/[\\x21\\x23-\\x27\\x2A\\x2B\\x2D\\x2E\\x30-\\x39\\x41-\\x5A\\x5E-\\x7A\\x7C\\x7E]/;\n",
    'prepack:\'run build:compile "$(pwd)"\',"build:cli+hook":"run build:pnp:hook"\n',
    "implicit:['input[type=\"email\"]','input[type=\"password\"]','input[type=\"tel\"]']\n",
    'host:"",user:"",password:"",pathname:"",hash:"",search:"",href:r};e.user=t.username||""\n',
    "    self.credentials = oauth2_parameters.credentials\n    var token = _step22.value;\n",
    "      credentials: oauth2client.client.OAuth2Credentials, they are updated\n",
    "    needAdditionalPass: SyncBailHook<[Compilation], boolean>;\n",
    "  if key == 'kerberos-5i-read-only':\n",
    "('Binary Authorization', k8s_util.GetPolicy2(record)),\n",
    "  # Only instantiate the masterAuth struct if one is set\n  auth = cluster.masterAuth\n  missing = not auth\n",
    '--service-account="projects/acme/serviceAccounts/me@acme.iam.gserviceaccount.com"\n',
    "t_f1\tt_k1\t<F1>\t\tfunction key 1\t\t\t*t_f1*\n",
    "apt\tpasswd\t4.13\napt\tbzip2-doc\t1.0.8-5+b1\n",
)


FOUND_BESIDE_THEM = (
    "X=$(PGPASSWORD=9fK2mQ7xZ1pLw8 psql)\n",
    'N=$(MYSQL_PWD="9fK2mQ7xZ1pLw8" mysql -N)\n',
    "API_TOKEN=9fKmQxZpLwTRw_kdJhBn\n",
    "password=Winter/9fK2026.11\n",
    "password=P&&9fK.X(6MOpHbz\n",
    "1.2.3,password,user\nx,9fK2mQ7xZ1pLw8,bob\n",
    "| 1.0 | password |\n|---|---|\n| x | 9fK2mQ7xZ1pLw8 |\n",
    "masterauth\n9fK2mQ7xZ1pLw8\n",
    "masterAuth: 9fK2mQ7((xZ1pLw8\n",
    "Log in with projects/9fK2mQ7xZ1pLw8\n",
    'ALTER USER bob PASSWORD"9fK2mQ7xZ1pLw8!"\n',
    "password 7 *9fK2mQ7xZ1pLw8\n",
    '{"msg":"auth","token":"9fK2mQ7xZ1pLw8"}\n',
)


@pytest.mark.parametrize("text", FOUND_BESIDE_THEM)
def test_a_secret_is_found_where_it_looks_like_what_is_left_alone(text):
    assert "9fK" not in shared_redactor().redact(text).text


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_it_is_left_alone(text):
    assert shared_redactor().redact(text).text == text


def test_a_phrase_of_chinese_letters_is_found_where_something_says_so_or_stands_between_them():
    phrase = "的 一 是 在 不 了 有 和 人 这 中 大"
    said = f"助记词：{phrase.replace(' ', '')}\n"
    assert "[REDACTED:seed-phrase]" in shared_redactor().redact(said).text


def test_our_own_sessions_and_those_of_children_open_nothing():
    text = f'{{"session_id": "{new_session_id()}"}}'
    assert shared_redactor().redact(text).text == text
    fields = {"session_id": "run-1m81echt94r94f.child-12"}
    assert shared_redactor().fields(fields) is fields
    assert shared_redactor().fields({"session_id": "run-1m81echt94r94f.child-x9ZkQ2"}) != fields
