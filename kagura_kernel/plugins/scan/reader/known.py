"""What is known to be harmless: names of Python's library, classes to derive from, hooks that a class may define.

What stands in no table here is told as a warning, even where nobody has found a way to misuse it yet: a name is
harmless only once somebody has looked at it. What is known to be dangerous stands in `references`.
"""

from __future__ import annotations

_NAMES = {
    "__future__": "annotations absolute_import division generator_stop generators nested_scopes print_function "
    "unicode_literals with_statement",
    "abc": "ABC ABCMeta abstractclassmethod abstractmethod abstractproperty abstractstaticmethod",
    "argparse": "Action ArgumentDefaultsHelpFormatter ArgumentError ArgumentParser ArgumentTypeError "
    "BooleanOptionalAction HelpFormatter MetavarTypeHelpFormatter Namespace ONE_OR_MORE OPTIONAL PARSER REMAINDER "
    "RawDescriptionHelpFormatter RawTextHelpFormatter SUPPRESS ZERO_OR_MORE",
    "array": "ArrayType array typecodes",
    "ast": "AST Add And AnnAssign Assert Assign AsyncFor AsyncFunctionDef AsyncWith Attribute AugAssign Await BinOp "
    "BitAnd BitOr BitXor BoolOp Break Bytes Call ClassDef Compare Constant Continue Del Delete Dict DictComp Div "
    "Ellipsis Eq ExceptHandler Expr Expression FloorDiv For FormattedValue FunctionDef FunctionType GeneratorExp "
    "Global Gt GtE If IfExp Import ImportFrom In Interactive Invert Is IsNot JoinedStr LShift Lambda List ListComp "
    "Load Lt LtE MatMult Match MatchAs MatchClass MatchMapping MatchOr MatchSequence MatchSingleton MatchStar "
    "MatchValue Mod Module Mult Name NameConstant NamedExpr NodeTransformer NodeVisitor Nonlocal Not NotEq NotIn Num "
    "Or ParamSpec Pass Pow RShift Raise Return Set SetComp Slice Starred Store Str Sub Subscript Try TryStar Tuple "
    "TypeAlias TypeIgnore TypeVar TypeVarTuple UAdd USub UnaryOp While With Yield YieldFrom alias arg arguments boolop "
    "cmpop comprehension copy_location dump excepthandler expr expr_context fix_missing_locations get_docstring "
    "get_source_segment increment_lineno iter_child_nodes keyword match_case mod operator parse pattern stmt "
    "type_ignore type_param unaryop unparse walk withitem",
    "asyncio": "ALL_COMPLETED AbstractEventLoop Barrier BoundedSemaphore BrokenBarrierError CancelledError Condition "
    "Event FIRST_COMPLETED FIRST_EXCEPTION Future IncompleteReadError InvalidStateError LifoQueue LimitOverrunError "
    "Lock PriorityQueue Queue QueueEmpty QueueFull QueueShutDown Runner Semaphore Task TaskGroup Timeout TimeoutError "
    "TimerHandle all_tasks as_completed create_task current_task ensure_future gather get_event_loop get_running_loop "
    "iscoroutine iscoroutinefunction isfuture new_event_loop run run_coroutine_threadsafe set_event_loop shield sleep "
    "timeout timeout_at wait wait_for wrap_future",
    "base64": "a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode b32hexencode b64decode "
    "b64encode b85decode b85encode decode decodebytes encode encodebytes standard_b64decode standard_b64encode "
    "urlsafe_b64decode urlsafe_b64encode z85decode z85encode",
    "binascii": "Error Incomplete a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp b2a_uu crc32 crc_hqx "
    "hexlify unhexlify",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "builtins": "ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError "
    "BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError "
    "ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning "
    "EnvironmentError Exception ExceptionGroup False FileExistsError FileNotFoundError FloatingPointError "
    "FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError InterruptedError "
    "IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError None "
    "NotADirectoryError NotImplemented NotImplementedError OSError OverflowError PendingDeprecationWarning "
    "PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning "
    "RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit "
    "TabError TimeoutError True TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError "
    "UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError abs aiter all anext any "
    "ascii bin bool bytearray bytes callable chr classmethod complex delattr dict dir divmod enumerate filter float "
    "format frozenset getattr globals hasattr hash hex id int isinstance issubclass iter len list locals map max "
    "memoryview min next object oct ord pow print property range repr reversed round set setattr slice sorted "
    "staticmethod str sum super tuple type vars zip NoneType ellipsis __name__ __doc__ __package__ __debug__",
    "bz2": "BZ2Compressor BZ2Decompressor compress decompress",
    "calendar": "Calendar Day FRIDAY HTMLCalendar IllegalMonthError IllegalWeekdayError LocaleHTMLCalendar "
    "LocaleTextCalendar MONDAY Month SATURDAY SUNDAY THURSDAY TUESDAY TextCalendar WEDNESDAY calendar day_abbr "
    "day_name firstweekday isleap leapdays month month_abbr month_name monthcalendar monthrange prcal prmonth timegm "
    "weekday weekheader",
    "cmath": "acos acosh asin asinh atan atanh cos cosh e exp inf infj isclose isfinite isinf isnan log log10 nan nanj "
    "phase pi polar rect sin sinh sqrt tan tanh tau",
    "codecs": "BOM BOM_BE BOM_LE BOM_UTF16 BOM_UTF16_BE BOM_UTF16_LE BOM_UTF32 BOM_UTF32_BE BOM_UTF32_LE BOM_UTF8 "
    "decode encode getdecoder getencoder getincrementaldecoder getincrementalencoder getreader getwriter iterdecode "
    "iterencode lookup",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString abc defaultdict deque namedtuple",
    "collections.abc": "AsyncGenerator AsyncIterable AsyncIterator Awaitable Buffer ByteString Callable Collection "
    "Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping "
    "MutableSequence MutableSet Reversible Sequence Set Sized ValuesView",
    "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
    "concurrent.futures": "ALL_COMPLETED BrokenExecutor CancelledError Executor FIRST_COMPLETED FIRST_EXCEPTION Future "
    "InvalidStateError TimeoutError as_completed wait",
    "configparser": "BasicInterpolation ConfigParser DEFAULTSECT DuplicateOptionError DuplicateSectionError Error "
    "ExtendedInterpolation InterpolationDepthError InterpolationError InterpolationMissingOptionError "
    "InterpolationSyntaxError MissingSectionHeaderError NoOptionError NoSectionError ParsingError RawConfigParser "
    "SectionProxy UNNAMED_SECTION",
    "contextlib": "AbstractAsyncContextManager AbstractContextManager AsyncContextDecorator AsyncExitStack "
    "ContextDecorator ExitStack aclosing asynccontextmanager closing contextmanager nullcontext suppress",
    "contextvars": "Context ContextVar Token copy_context",
    "copy": "Error copy deepcopy error replace",
    "csv": "Dialect DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC QUOTE_NOTNULL "
    "QUOTE_STRINGS Sniffer excel excel_tab field_size_limit get_dialect list_dialects reader register_dialect "
    "unix_dialect unregister_dialect writer",
    "dataclasses": "Field FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass field fields "
    "is_dataclass make_dataclass replace",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo",
    "decimal": "BasicContext Clamped Context ConversionSyntax Decimal DecimalException DecimalTuple DefaultContext "
    "DivisionByZero DivisionImpossible DivisionUndefined ExtendedContext FloatOperation HAVE_THREADS Inexact "
    "InvalidContext InvalidOperation MAX_EMAX MAX_PREC MIN_EMIN MIN_ETINY Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN "
    "ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow getcontext "
    "localcontext",
    "difflib": "Differ HtmlDiff IS_CHARACTER_JUNK IS_LINE_JUNK Match SequenceMatcher context_diff diff_bytes "
    "get_close_matches ndiff restore unified_diff",
    "email": "message_from_binary_file message_from_bytes message_from_file message_from_string",
    "email.charset": "BASE64 Charset QP SHORTEST",
    "email.encoders": "encode_7or8bit encode_base64 encode_noop encode_quopri",
    "email.generator": "BytesGenerator DecodedGenerator Generator",
    "email.header": "Header decode_header make_header",
    "email.headerregistry": "Address AddressHeader ContentTypeHeader DateHeader Group",
    "email.message": "EmailMessage MIMEPart Message",
    "email.mime.application": "MIMEApplication",
    "email.mime.base": "MIMEBase",
    "email.mime.image": "MIMEImage",
    "email.mime.multipart": "MIMEMultipart",
    "email.mime.text": "MIMEText",
    "email.parser": "BytesFeedParser BytesHeaderParser BytesParser FeedParser HeaderParser Parser",
    "email.policy": "Compat32 EmailPolicy HTTP Policy SMTP SMTPUTF8 compat32 default strict",
    "email.utils": "collapse_rfc2231_value decode_params decode_rfc2231 encode_rfc2231 format_datetime formataddr "
    "formatdate getaddresses localtime make_msgid mktime_tz parseaddr parsedate parsedate_to_datetime parsedate_tz "
    "quote unquote",
    "enum": "CONFORM CONTINUOUS EJECT Enum EnumCheck EnumMeta EnumType Flag FlagBoundary IntEnum IntFlag KEEP "
    "NAMED_FLAGS ReprEnum STRICT StrEnum UNIQUE auto member nonmember unique verify",
    "errno": "errorcode",
    "fnmatch": "filter fnmatch fnmatchcase translate",
    "fractions": "Fraction",
    "functools": "WRAPPER_ASSIGNMENTS WRAPPER_UPDATES cache cached_property cmp_to_key lru_cache partial partialmethod "
    "reduce singledispatch singledispatchmethod total_ordering update_wrapper wraps",
    "genericpath": "commonprefix samestat",
    "getopt": "GetoptError error getopt gnu_getopt",
    "graphlib": "CycleError TopologicalSorter",
    "gzip": "BadGzipFile compress decompress",
    "hashlib": "algorithms_available algorithms_guaranteed blake2b blake2s file_digest md5 new pbkdf2_hmac scrypt sha1 "
    "sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 shake_128 shake_256",
    "heapq": "heapify heapify_max heappop heappop_max heappush heappush_max heappushpop heapreplace merge nlargest "
    "nsmallest",
    "hmac": "HMAC digest digest_size new",
    "html": "unescape",
    "html.entities": "codepoint2name entitydefs html5 name2codepoint",
    "html.parser": "HTMLParser",
    "http": "HTTPMethod HTTPStatus",
    "http.cookies": "BaseCookie CookieError Morsel SimpleCookie",
    "inspect": "BoundArguments CO_ASYNC_GENERATOR CO_COROUTINE CO_GENERATOR CO_VARARGS CO_VARKEYWORDS "
    "CORO_CLOSED CORO_CREATED CORO_RUNNING CORO_SUSPENDED FullArgSpec GEN_CLOSED GEN_CREATED "
    "GEN_RUNNING GEN_SUSPENDED Parameter Signature cleandoc formatannotation getcoroutinestate getdoc getfullargspec "
    "getmodulename isabstract isasyncgen isasyncgenfunction isawaitable isbuiltin isclass iscode iscoroutine "
    "iscoroutinefunction isdatadescriptor isframe isfunction isgenerator isgeneratorfunction isgetsetdescriptor "
    "ismemberdescriptor ismethod ismethoddescriptor ismethodwrapper ismodule isroutine istraceback signature",
    "io": "BlockingIOError BufferedIOBase BufferedRWPair BufferedRandom BufferedReader BufferedWriter BytesIO "
    "DEFAULT_BUFFER_SIZE IOBase IncrementalNewlineDecoder RawIOBase SEEK_CUR SEEK_END SEEK_SET StringIO TextIOBase "
    "TextIOWrapper UnsupportedOperation text_encoding",
    "ipaddress": "AddressValueError IPV4LENGTH IPV6LENGTH IPv4Address IPv4Interface IPv4Network IPv6Address "
    "IPv6Interface IPv6Network NetmaskValueError collapse_addresses get_mixed_type_key ip_address ip_interface "
    "ip_network summarize_address_range v4_int_to_packed v6_int_to_packed",
    "itertools": "accumulate batched chain combinations combinations_with_replacement compress count cycle dropwhile "
    "filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "json": "JSONDecodeError JSONDecoder JSONEncoder decoder dump dumps encoder load loads",
    "json.decoder": "JSONDecodeError JSONDecoder",
    "json.encoder": "ESCAPE ESCAPE_ASCII ESCAPE_DCT FLOAT_REPR INFINITY JSONEncoder encode_basestring "
    "encode_basestring_ascii",
    "keyword": "iskeyword issoftkeyword kwlist softkwlist",
    "locale": "CHAR_MAX Error LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME atof atoi currency "
    "delocalize format_string getencoding getpreferredencoding localeconv localize normalize str strcoll strxfrm",
    "logging": "BASIC_FORMAT CRITICAL DEBUG ERROR FATAL Filter Formatter Handler INFO LogRecord Logger LoggerAdapter "
    "NOTSET NullHandler StrFormatStyle StreamHandler WARN WARNING critical debug error exception fatal getLevelName "
    "getLevelNamesMapping getLogger handlers info log warn warning",
    "lzma": "CHECK_CRC32 CHECK_CRC64 CHECK_NONE CHECK_SHA256 CHECK_UNKNOWN FILTER_DELTA FILTER_LZMA1 FILTER_LZMA2 "
    "FILTER_X86 FORMAT_ALONE FORMAT_AUTO FORMAT_RAW FORMAT_XZ LZMACompressor LZMADecompressor LZMAError PRESET_DEFAULT "
    "PRESET_EXTREME compress decompress is_check_supported",
    "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2 "
    "expm1 fabs factorial floor fma fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp "
    "lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt sumprod tan tanh "
    "tau trunc ulp",
    "mimetypes": "common_types encodings_map guess_all_extensions guess_extension guess_file_type guess_type types_map",
    "numbers": "Complex Integral Number Rational Real",
    "operator": "abs add and_ attrgetter concat contains countOf delitem eq floordiv ge getitem gt iadd iand iconcat "
    "ifloordiv ilshift imatmul imod imul index indexOf inv invert ior ipow irshift is_ is_none is_not is_not_none isub "
    "itemgetter itruediv ixor le length_hint lshift lt matmul methodcaller mod mul ne neg not_ or_ pos pow rshift "
    "setitem sub truediv truth xor",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "platform": "python_branch python_build python_compiler python_implementation python_revision python_version "
    "python_version_tuple version",
    "pprint": "PrettyPrinter isreadable isrecursive pformat pp pprint saferepr",
    "queue": "Empty Full LifoQueue PriorityQueue Queue ShutDown SimpleQueue",
    "quopri": "decode decodestring encode encodestring",
    "random": "Random SystemRandom betavariate binomialvariate choice choices expovariate gammavariate gauss "
    "getrandbits getstate lognormvariate normalvariate paretovariate randbytes randint random randrange sample "
    "setstate shuffle triangular uniform vonmisesvariate weibullvariate",
    "re": "A ASCII DEBUG DOTALL I IGNORECASE L LOCALE M MULTILINE Match NOFLAG Pattern PatternError RegexFlag S U "
    "UNICODE VERBOSE X compile error escape findall finditer fullmatch match purge search split sub subn",
    "reprlib": "Repr recursive_repr repr",
    "sched": "scheduler",
    "secrets": "SystemRandom choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
    "shlex": "join split",
    "stat": "filemode",
    "statistics": "NormalDist StatisticsError correlation covariance fmean geometric_mean harmonic_mean kde kde_random "
    "linear_regression mean median median_grouped median_high median_low mode multimode pstdev pvariance quantiles "
    "stdev variance",
    "string": "Formatter Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits "
    "printable punctuation whitespace",
    "stringprep": "in_table_a1 in_table_b1 in_table_c11 in_table_c11_c12 in_table_c12 in_table_c21 in_table_c21_c22 "
    "in_table_c22 in_table_c3 in_table_c4 in_table_c5 in_table_c6 in_table_c7 in_table_c8 in_table_c9 in_table_d1 "
    "in_table_d2 map_table_b2 map_table_b3",
    "struct": "Struct calcsize error iter_unpack pack pack_into unpack unpack_from",
    "textwrap": "TextWrapper dedent fill indent shorten wrap",
    "threading": "Barrier BoundedSemaphore BrokenBarrierError Condition Event Lock RLock Semaphore TIMEOUT_MAX "
    "ThreadError active_count get_ident get_native_id local",
    "time": "CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_TAI "
    "CLOCK_THREAD_CPUTIME_ID altzone asctime clock_getres clock_gettime clock_gettime_ns ctime daylight get_clock_info "
    "gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns sleep "
    "strftime strptime struct_time thread_time thread_time_ns time time_ns timezone tzname",
    "token": "tok_name",
    "tokenize": "TokenError TokenInfo detect_encoding generate_tokens tok_name tokenize untokenize",
    "tomllib": "TOMLDecodeError load loads",
    "traceback": "FrameSummary TracebackException extract_stack extract_tb format_exc format_exception "
    "format_exception_only format_list format_stack format_tb print_exc print_exception print_stack print_tb",
    "types": "AsyncGeneratorType BuiltinFunctionType BuiltinMethodType CapsuleType ClassMethodDescriptorType "
    "CoroutineType EllipsisType GeneratorType GenericAlias GetSetDescriptorType MappingProxyType MemberDescriptorType "
    "MethodDescriptorType MethodType MethodWrapperType NoneType NotImplementedType SimpleNamespace TracebackType "
    "UnionType WrapperDescriptorType",
    "typing": "AbstractSet Annotated Any AnyStr AsyncContextManager AsyncGenerator AsyncIterable AsyncIterator "
    "Awaitable BinaryIO ByteString Callable ChainMap ClassVar Collection Concatenate Container ContextManager "
    "Coroutine Counter DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable IO ItemsView Iterable "
    "Iterator KeysView List Literal LiteralString Mapping MappingView Match MutableMapping MutableSequence MutableSet "
    "NamedTuple Never NewType NoDefault NoReturn NotRequired Optional OrderedDict ParamSpec ParamSpecArgs "
    "ParamSpecKwargs Pattern Protocol ReadOnly Required Reversible Self Sequence Set Sized SupportsAbs SupportsBytes "
    "SupportsComplex SupportsFloat SupportsIndex SupportsInt SupportsRound TYPE_CHECKING Text TextIO Tuple Type "
    "TypeAlias TypeAliasType TypeGuard TypeIs TypeVar TypeVarTuple TypedDict Union Unpack ValuesView assert_never "
    "assert_type cast dataclass_transform final get_args get_origin is_protocol is_typeddict overload override "
    "reveal_type runtime_checkable",
    "unicodedata": "UCD bidirectional category combining decimal decomposition digit east_asian_width is_normalized "
    "lookup mirrored name normalize numeric ucd_3_2_0 unidata_version",
    "urllib.error": "ContentTooShortError HTTPError URLError",
    "urllib.parse": "DefragResult DefragResultBytes ParseResult ParseResultBytes SplitResult SplitResultBytes parse_qs "
    "parse_qsl quote quote_from_bytes quote_plus unquote unquote_plus unquote_to_bytes urldefrag urlencode urljoin "
    "urlparse urlsplit urlunparse urlunsplit",
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 RESERVED_FUTURE RESERVED_MICROSOFT RESERVED_NCS "
    "RFC_4122 SafeUUID UUID uuid3 uuid4 uuid5 uuid6 uuid7 uuid8",
    "warnings": "catch_warnings deprecated filterwarnings resetwarnings simplefilter warn",
    "weakref": "ProxyType ProxyTypes ReferenceType WeakKeyDictionary WeakMethod WeakSet WeakValueDictionary finalize "
    "getweakrefcount getweakrefs proxy ref",
    "xml.dom": "DOMException EMPTY_NAMESPACE EMPTY_PREFIX Node XHTML_NAMESPACE XMLNS_NAMESPACE XML_NAMESPACE",
    "xml.dom.minidom": "Attr CDATASection Comment DOMImplementation Document DocumentFragment DocumentType Element "
    "NamedNodeMap Node NodeList ProcessingInstruction Text parseString",
    "xml.etree.ElementTree": "Comment Element PI ParseError ProcessingInstruction QName SubElement "
    "TreeBuilder VERSION XML XMLID XMLParser XMLPullParser dump fromstring fromstringlist indent iselement "
    "register_namespace tostring tostringlist",
    "xml.parsers.expat": "ErrorString ExpatError ParserCreate XMLParserType error errors model",
    "xml.sax": "ContentHandler ErrorHandler SAXException SAXNotRecognizedException "
    "SAXNotSupportedException SAXParseException handler parseString saxutils",
    "xml.sax.handler": "ContentHandler DTDHandler EntityResolver ErrorHandler LexicalHandler feature_external_ges "
    "feature_external_pes feature_namespace_prefixes feature_namespaces feature_validation property_lexical_handler",
    "xml.sax.saxutils": "XMLFilterBase XMLGenerator escape quoteattr unescape",
    "zlib": "DEFLATED DEF_BUF_SIZE DEF_MEM_LEVEL MAX_WBITS ZLIB_RUNTIME_VERSION ZLIB_VERSION Z_BEST_COMPRESSION "
    "Z_BEST_SPEED Z_BLOCK Z_DEFAULT_COMPRESSION Z_DEFAULT_STRATEGY Z_FILTERED Z_FINISH Z_FIXED Z_FULL_FLUSH "
    "Z_HUFFMAN_ONLY Z_NO_COMPRESSION Z_NO_FLUSH Z_PARTIAL_FLUSH Z_RLE Z_SYNC_FLUSH Z_TREES adler32 compress "
    "compressobj crc32 decompress decompressobj error",
    "zoneinfo": "InvalidTZPathWarning TZPATH ZoneInfo ZoneInfoNotFoundError available_timezones",
    **dict.fromkeys(
        ("os.path", "posixpath", "ntpath"),
        "abspath altsep basename commonprefix curdir defpath devnull dirname extsep isabs isreserved join normcase "
        "normpath pardir pathsep relpath samestat sep split splitdrive splitext splitroot supports_unicode_filenames",
    ),
}
_BASES = {
    "abc": "ABC ABCMeta",
    "argparse": "Action ArgumentDefaultsHelpFormatter ArgumentParser HelpFormatter MetavarTypeHelpFormatter Namespace "
    "RawDescriptionHelpFormatter RawTextHelpFormatter",
    "ast": "NodeTransformer NodeVisitor",
    "builtins": "bytearray bytes complex dict float frozenset int list object property set str tuple type",
    "calendar": "Calendar HTMLCalendar TextCalendar",
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque",
    "collections.abc": _NAMES["collections.abc"],
    "contextlib": "AbstractAsyncContextManager AbstractContextManager AsyncContextDecorator AsyncExitStack "
    "ContextDecorator ExitStack",
    "csv": "Dialect excel excel_tab unix_dialect",
    "datetime": "date datetime time timedelta tzinfo",
    "decimal": "Decimal",
    "email.message": "EmailMessage Message",
    "enum": "Enum Flag IntEnum IntFlag ReprEnum StrEnum",
    "fractions": "Fraction",
    "html.parser": "HTMLParser",
    "io": "BufferedIOBase BytesIO IOBase RawIOBase StringIO TextIOBase TextIOWrapper",
    "json": "JSONDecoder JSONEncoder",
    "json.decoder": "JSONDecoder",
    "json.encoder": "JSONEncoder",
    "logging": "Filter Formatter Handler Logger LoggerAdapter NullHandler StreamHandler",
    "numbers": _NAMES["numbers"],
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "pprint": "PrettyPrinter",
    "queue": "LifoQueue PriorityQueue Queue",
    "random": "Random SystemRandom",
    "reprlib": "Repr",
    "statistics": "NormalDist",
    "string": "Formatter Template",
    "textwrap": "TextWrapper",
    "threading": "local",
    "types": "SimpleNamespace",
    "typing": _NAMES["typing"],
    "uuid": "UUID",
    "weakref": "WeakKeyDictionary WeakSet WeakValueDictionary",
    "xml.sax": "ContentHandler ErrorHandler",
    "xml.sax.handler": "ContentHandler DTDHandler EntityResolver ErrorHandler LexicalHandler",
    "xml.sax.saxutils": "XMLFilterBase XMLGenerator",
}
_CONSTANTS = ("errno", "stat", "token", "tokenize")

HOOKS = frozenset(
    f"__{word}__"
    for word in "abs add aenter aexit aiter all and anext author await bool buffer bytes call ceil class_getitem "
    "complex contains copy deepcopy date debug del delattr delete delitem divmod doc enter eq exit float floor "
    "floordiv format fspath ge get getattr getitem getstate gt hash iadd iand ifloordiv ilshift imatmul imod imul "
    "index init init_subclass int invert ior ipow irshift isub iter itruediv ixor le len length_hint license lshift lt "
    "match_args matmul missing mod module mul ne neg new next or pos post_init pow qualname radd rand rdivmod "
    "release_buffer replace repr reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub "
    "rtruediv rxor set set_name setattr setitem setstate sizeof slots str sub truediv trunc version weakref xor".split()
)
"""What a class may define for Python to call, or to read: the bodies are read like all code."""

READ = HOOKS.difference(("__set_name__", "__get__", "__getattr__", "__setstate__", "__replace__", "__weakref__")) | {
    f"__{word}__"
    for word in "args cause class context dict dir file members name notes optional_keys orig_bases "
    "origin required_keys suppress_context traceback version_info wrapped".split()
}
"""Names between two pairs of underscores that may be read of anything."""

PRIVATE = frozenset(
    "_asdict _replace _fields _make _field_defaults _field_types _attributes _missing_ _value_ _name_ "
    "_generate_next_value_ _ignore_ _order_ _member_map_ _member_names_ _value2member_map_ _numeric_repr_".split()
)
"""Names that begin with an underscore, and are what a class of Python's library documents for all that."""

KNOWN = frozenset(f"{module}.{word}" for module, words in _NAMES.items() for word in words.split())
"""Dotted names of Python's library that are known to be harmless by themselves."""

BASES = frozenset(f"{module}.{word}" for module, words in _BASES.items() for word in words.split())
"""Classes of Python's library that are known to be harmless to derive from."""


def is_known(module: str, name: str) -> bool:
    """Whether a name in a module of Python's library is known to be harmless."""
    return f"{module}.{name}" in KNOWN or (name.isupper() and module in _CONSTANTS)


def is_base(full: str) -> bool:
    """Whether a class of Python's library is known to be harmless to derive from; kinds of errors all are."""
    return full in BASES or (full in KNOWN and full.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt")))
